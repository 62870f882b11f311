"""What goes on a slide, from small notebooks: figures, sentences around them, notes, questions; what has no room."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from quizzes import Choice, Question
from slide_decks import deck
from slide_parts import BODY, code_part, table_part
from slide_text import blocks, items, sentences, to_html, width
from slides import MOST, Slide, choose, claimed

PICTURE = (
    '<figure><img src="data:image/png;base64,AAAA" alt="a line &quot;up&quot;">'
    "<figcaption>It grows.</figcaption></figure>"
)
TITLE = "# Sums\n\n**You need**: numbers.\n\n**You will be able to**\n\n* add;\n* subtract."


def text(*paragraphs: str) -> nbformat.NotebookNode:
    return new_markdown_cell("\n\n".join(paragraphs))


def code(source: str, *outputs: dict[str, Any], tags: tuple[str, ...] = ()) -> nbformat.NotebookNode:
    cell = new_code_cell(source, metadata={"tags": list(tags)})
    cell.outputs = [nbformat.from_dict(output) for output in outputs]
    return cell


def figure() -> nbformat.NotebookNode:
    return code("draw()", new_output("display_data", data={"text/html": PICTURE}), tags=("hide-input",))


def slides(*cells: nbformat.NotebookNode, quiz: tuple[Question, ...] = ()) -> list[Slide]:
    return choose(new_notebook(cells=[text(TITLE), *cells]), list(quiz))


def shown(slide: Slide) -> list[tuple[str, str]]:
    return [(part.kind, part.text) for part in slide.parts]


def test_the_first_slide_says_what_the_reader_will_be_able_to_do() -> None:
    first, last = slides(text("## Summary", "* Sums add."))
    assert first.title == "Sums"
    assert [kind for kind, _ in shown(first)] == ["lead", "list"]
    assert items(first.parts[1].text) == ["add;", "subtract."]
    assert any("numbers" in note for note in first.notes)
    assert (last.kind, shown(last)) == ("summary", [("list", "* Sums add.")])


def test_a_figure_stands_between_what_is_asked_and_what_is_found() -> None:
    before = text("## Growth", "Sums grow. How fast?")
    after = text("It is a line, as one sees. The sum doubles with its parts. Nothing else is said.")
    claim = code('notebook.claim("The sum doubles with its parts.", True)', tags=("claims", "hide-cell"))
    _, slide = slides(before, figure(), claim, after)
    assert [kind for kind, _ in shown(slide)] == ["lead", "lead", "figure", "finding"]
    assert [part.text for part in slide.parts if part.kind == "lead"] == ["Sums grow.", "How fast?"]
    assert slide.parts[-1].text == "The sum doubles with its parts."
    assert slide.notes == ["Sums grow. How fast?", after.source]
    assert (slide.parts[2].caption, slide.parts[2].alt) == ("It grows.", "a line &quot;up&quot;")


def test_without_a_claim_the_next_paragraph_begins_to_tell() -> None:
    _, slide = slides(
        text("## Growth", "Sums grow."), figure(), text("Look there. It is a line that goes up for ever.")
    )
    assert slide.parts[-1].text == "It is a line that goes up for ever."
    _, slide, _ = slides(
        text("## Growth", "Sums grow."), figure(), text("We now add all of them and print:"), code("add()")
    )
    assert slide.parts[-1].kind == "figure", "the paragraph is about what follows it"


def test_code_is_shown_with_what_it_prints_unless_it_is_folded_or_only_imports() -> None:
    out = new_output("stream", name="stdout", text="3\n")
    _, slide = slides(
        text("## Code", "Add."),
        code("import math\nimport os", tags=()),
        code("secret()", out, tags=("checks", "hide-input")),
        code("def add(a, b):\n    return a + b\n\n\n\nprint(add(1, 2))", out),
    )
    assert shown(slide)[-2:] == [("code", "def add(a, b):\n    return a + b\n\nprint(add(1, 2))"), ("output", "3")]


def test_what_has_no_room_loses_its_sentences_and_then_its_slide() -> None:
    line = "number = 1"
    many = (BODY - 60) // 26
    _, slide = slides(text("## Code", "Here it is."), code("\n".join([line] * many)))
    assert [kind for kind, _ in shown(slide)] == ["code"]
    _, slide = slides(text("## Code", "Here it is."), code("\n".join([line] * 2 * many)))
    assert shown(slide) == [("text", "Here it is.")]
    assert code_part("x" * 100, "python").height > BODY
    assert table_part("| a |\n|---|\n" + "| 1 |\n" * 30).height > BODY


def test_a_formula_shares_its_slide_with_the_code_that_follows() -> None:
    _, slide = slides(text("## Sum", "We add.", "$$s = a + b$$", "In code it is this:"), code("s = a + b"))
    assert [kind for kind, _ in shown(slide)] == ["lead", "formula", "lead", "code"]
    assert slide.notes == ["We add.", "In code it is this:"]


def test_a_question_comes_after_its_section() -> None:
    choices = (Choice("2", True, "One and one."), Choice("3", False, "Too much."))
    question = Question("What is the sum?", "Sum", choices)
    made = slides(text("## Sum", "We add.", "* one\n* two"), text("## More", "* three\n* four"), quiz=(question,))
    assert [slide.kind for slide in made] == ["title", "section", "quiz", "section"]
    page = deck(made, "Numbers", "../page.html")
    assert '<li class="right fragment custom" data-fragment-index="0">2</li>' in page
    assert "Too much." in page.partition('<section class="quiz">')[2].partition("</section>")[0]


def test_a_long_chapter_keeps_the_best_of_each_section_and_all_its_notes() -> None:
    cells = []
    for number in range(10):
        cells += [
            text(f"## Part {number}", f"Paragraph {number} a."),
            code(f"run({number})"),
            text(f"Paragraph {number} b."),
        ]
        cells += [figure(), text(f"Paragraph {number} c."), code(f"last({number})")]
    made = slides(*cells)
    assert len(made) == MOST
    for number in range(10):
        section = [slide for slide in made if slide.title == f"Part {number}"]
        assert "figure" in [part.kind for slide in section for part in slide.parts]
        notes = [note for slide in section for note in slide.notes]
        assert notes == [f"Paragraph {number} {letter}." for letter in "abc"]


def test_exercises_and_references_are_no_slides() -> None:
    made = slides(text("## Exercises", "**Exercise 1 (by hand).** Add."), text("## References", "* A book"))
    assert [slide.kind for slide in made] == ["title"]


@pytest.mark.parametrize(
    ("paragraph", "found"),
    [
        ("One. Two is it. Three?", ["One.", "Two is it.", "Three?"]),
        (
            "See `a.b. C` there. Then (it is said. Really) more.",
            ["See `a.b. C` there.", "Then (it is said. Really) more."],
        ),
        ("About $1.5$ of it. **Why?** Because.", ["About $1.5$ of it.", "**Why?**", "Because."]),
        (
            "By [Vaswani et al. (2017)](https://x.y/Z) it is so. End",
            ["By [Vaswani et al. (2017)](https://x.y/Z) it is so.", "End"],
        ),
        ("**First. Second.** Third.", ["First.", "Second.", "Third."]),
    ],
)
def test_sentences(paragraph: str, found: list[str]) -> None:
    assert sentences(paragraph) == found


def test_blocks_leave_out_what_is_folded() -> None:
    found = blocks(
        "## A *b*\n\nText\n\n<details><summary>S</summary>\n\nHidden\n\n</details>\n\n$$\nx\n$$\n\n| a |\n|---|\n| 1 |"
    )
    assert [(block.kind, block.text) for block in found] == [
        ("heading", "A *b*"),
        ("paragraph", "Text"),
        ("formula", "$$\nx\n$$"),
        ("table", "| a |\n|---|\n| 1 |"),
    ]


def test_html_and_width() -> None:
    assert to_html("$a<b$") == r'<p><span class="math">\(a&lt;b\)</span></p>'
    assert "<script>" not in to_html("<script>alert(1)</script>")
    assert width("[word](https://example.org/a/long/address) `c`") == len("word c")
    assert claimed("%pip install x") == []
