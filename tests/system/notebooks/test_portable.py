"""What only the site understands becomes plain Markdown; code, mathematics and everything else stay as they are."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from addresses import Addresses, read_addresses
from book_support import chapter, executed
from citations import Bibliography
from contents import chapters
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from portable import Page, glued, portable, resolve

from d2lbert import UserError

ROOT = Path(__file__).resolve().parents[3]
PATH = Path("chapters/bert/bert.ipynb")
BOOK = Addresses("https://git.example/a/b", "notes", "https://book.example/b/", "https://colab.example")
WORKS = """\
@article{two2019, author = {Jain, Sarthak and Wallace, Byron C.}, title = {Two}, journal = {J}, year = {2019},
  doi = {10.1000/x_1}}
@misc{many2020, author = {Cho, Ky and van Merri{\\"e}nboer, Bart and Gul, C}, title = {Many}, year = {2020},
  url = {https://many.example}}
@misc{group2021, author = {{Lightning AI}}, title = {Alone}, year = {2021}}
"""


@pytest.fixture(scope="module")
def works(tmp_path_factory: pytest.TempPathFactory) -> Bibliography:
    path = tmp_path_factory.mktemp("works") / "references.bib"
    path.write_text(WORKS)
    return Bibliography(path, "https://book.example/b/references.html")


def resolved(text: str, works: Bibliography, **numbers: str) -> str:
    return resolve(text, Page(PATH, "BERT", BOOK, works, numbers))


@pytest.mark.parametrize(
    ("value", "role", "text"),
    [
        ("0.93456", "x:.2f", "0.93"),
        ("0.93456", "x", "0.93456"),
        ("12345", "x:,", "12,345"),
        ("3", "x:.1f", "3.0"),
        ("-0.5", "x:+.2f", "-0.50"),
        ("'bank'", "x", "bank"),
        ("'a_b*c|<s>$'", "x", r"a\_b\*c\|\<s\>\$"),
    ],
)
def test_numbers_are_written_as_on_the_site(works: Bibliography, value: str, role: str, text: str) -> None:
    assert resolved(f"it is {{glue:text}}`{role}` %", works, x=value) == f"it is {text} %"


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Words {cite}`two2019`.", "Words ([Jain and Wallace, 2019](https://doi.org/10.1000/x_1))."),
        ("{cite:t}`many2020` say", "[Cho et al. (2020)](https://many.example) say"),
        (
            "(see {cite}`two2019, group2021`)",
            "(see [Jain and Wallace, 2019](https://doi.org/10.1000/x_1); "
            "[Lightning AI, 2021](https://book.example/b/references.html))",
        ),
    ],
)
def test_citations_are_names_with_links(works: Bibliography, text: str, cited: str) -> None:
    assert resolved(text, works) == cited


def test_a_box_is_a_quote(works: Bibliography) -> None:
    text = "a\n\n:::{note}\nOne [two](x.ipynb).\n\nThree {glue:text}`x`.\n:::\n\nb"
    link = "[two](https://book.example/b/chapters/bert/x.html)"
    assert resolved(text, works, x="3") == f"a\n\n> **Note.** One {link}.\n>\n> Three 3.\n\nb"
    assert resolved(":::{admonition} So\n:class: toy\nit is\n:::", works) == "> **So.** it is"
    assert resolved(":::{note}\n**Where to start.** Here.\n:::", works) == "> **Where to start.** Here."


@pytest.mark.parametrize(
    "text",
    [
        "```python\nx[0](y.ipynb)\n```",
        "`x[0](y.ipynb)` and ``a ` b](c)``",
        "$f[x](y)$ and\n\n$$\ng[x](y)\n$$",
        "[out](https://elsewhere.example) <details><summary>Solution</summary>",
        "a price of \\$3, [one](mailto:me@here.example) and \\$4",
    ],
)
def test_the_rest_stays(works: Bibliography, text: str) -> None:
    assert resolved(text, works) == text


def test_links_are_absolute(works: Bibliography) -> None:
    assert resolved("[`x`](../elmo/elmo.ipynb#a)", works) == "[`x`](https://book.example/b/chapters/elmo/elmo.html#a)"
    assert resolved('<a href="../../x.html">x</a>', works) == '<a href="https://book.example/b/x.html">x</a>'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{ref}`there`", "the role {ref}"),
        ("{glue:text}`y`", "the number 'y' was not glued"),
        ("{cite}`nobody2020`", "no work 'nobody2020'"),
        (":::{warning}\nno\n:::", "a box of the kind 'warning'"),
        (":::{note}\nno end", "a box is not closed"),
    ],
)
def test_what_is_not_known_is_refused(works: Bibliography, text: str, problem: str) -> None:
    with pytest.raises(UserError, match=re.escape(problem)):
        resolved(text, works, x="1")
    notebook = executed(chapter(new_markdown_cell(text)), x="1")
    with pytest.raises(UserError, match=f"^{re.escape(str(PATH))}: "):
        portable(notebook, PATH, BOOK, works)


def test_a_notebook_says_where_it_is_from_and_what_it_cites(works: Bibliography) -> None:
    drawn = new_code_cell("f()", metadata={"tags": ["hide-input"], "papermill": {"duration": 1}})
    drawn.outputs = [new_output("display_data", data={"text/markdown": "[a](elmo.ipynb)", "text/plain": "a"})]
    text = new_markdown_cell("{cite}`two2019` {cite}`two2019,many2020`")
    notebook = executed(chapter(drawn, text), x="1")
    before = nbformat.from_dict(notebook)
    made = portable(notebook, PATH, BOOK, works)
    assert notebook == before
    header = made.cells[1].source
    assert "[Title](https://book.example/b/chapters/bert/bert.html)" in header
    assert "commit [abcdef1](https://git.example/a/b/commit/abcdef1)" in header
    assert all(line.startswith(">") for line in header.splitlines())
    assert made.cells[3].outputs == [], "a glued value is no output for readers"
    assert made.cells[2].metadata["jupyter"] == {"source_hidden": True}, "what the first cell says is seen"
    assert made.cells[4].metadata == {"jupyter": {"source_hidden": True}, "cellView": "form", "tags": ["hide-input"]}
    assert made.cells[4].outputs[0].data["text/markdown"] == "[a](https://book.example/b/chapters/bert/elmo.html)"
    heading, _, *listed = made.cells[-1].source.splitlines()
    assert heading == "## References"
    assert [line[:8] for line in listed] == ["* Ky Cho", "* Sartha"]
    assert "Merriënboer" in listed[0]
    assert "https://doi.org/10.1000/x" in listed[1]


def test_a_copy_that_is_not_finished_is_refused(works: Bibliography) -> None:
    with pytest.raises(UserError, match="does not say how it was run"):
        portable(chapter(), PATH, BOOK, works)


def test_glued_values_are_found() -> None:
    assert glued(executed(chapter(), a="1", b="'x'")) == {"a": "1", "b": "'x'"}


@pytest.mark.parametrize("path", chapters(ROOT), ids=lambda path: path.stem)
def test_every_chapter_can_be_resolved(path: Path) -> None:
    """Its prose, with made-up numbers: no markup is left, and every link leads somewhere by itself."""
    notebook = nbformat.read(ROOT / path, as_version=4)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    names = set(re.findall(r"\{glue:text\}`([^`:]+)", prose))
    addresses = read_addresses(ROOT)
    works = Bibliography(ROOT / "references.bib", addresses.page(Path("references.md")))
    made = portable(executed(notebook, **dict.fromkeys(names, "1")), path, addresses, works)
    text = "\n".join(cell.source for cell in made.cells if cell.cell_type == "markdown")
    assert not re.search(r"\{[\w:]+\}`|^:::|\{cite|\{glue", text, flags=re.MULTILINE)
    plain = re.sub(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$", " ", text, flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)|(?:href|src)=\"([^\"]+)", plain)
    assert targets
    assert not [
        target for pair in targets for target in pair if target and not target.startswith(("https://", "http://"))
    ]
