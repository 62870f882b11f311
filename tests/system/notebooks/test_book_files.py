"""What the files of the whole book are made of: plain HTML, links inside the file, quizzes with their answers."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from addresses import Addresses
from book_files.links import InnerAddresses, InnerWorks
from book_files.markup import markdown_html, notebook_html, page_tree
from book_files.offer import MARK, offer
from book_files.pages import read_book
from book_files.quiz import add_quiz
from lxml import html
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from quizzes import Choice, Question

from d2lbert import UserError

ROOT = Path(__file__).resolve().parents[3]
BOOK = Addresses("https://git.example/a/b", "notes", "https://book.example/b/", "https://colab.example")
HERE, THERE = Path("chapters/bert/bert.ipynb"), Path("chapters/elmo/elmo.ipynb")
INSIDE = InnerAddresses.of(BOOK, {HERE: "bert.bert", THERE: "elmo.elmo"})


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("../elmo/elmo.ipynb", "#elmo.elmo"),
        ("../elmo/elmo.ipynb#a-b", "#elmo.elmo.a-b"),
        ("#a-b", "#bert.bert.a-b"),
        ("relatives.ipynb", "https://book.example/b/chapters/bert/relatives.html"),
        ("../../d2lbert/torch/bert.py", "https://git.example/a/b/blob/main/d2lbert/torch/bert.py"),
        ("../../notebooks/all.zip", "https://book.example/b/notebooks/all.zip"),
        ("https://elsewhere.example/x.ipynb", "https://elsewhere.example/x.ipynb"),
    ],
)
def test_what_the_file_holds_is_linked_inside_it(target: str, place: str) -> None:
    assert INSIDE.resolve(target, HERE) == place


def test_citations_lead_to_the_list_in_its_order() -> None:
    works = InnerWorks(ROOT / "references.bib", "")
    assert works.in_brackets(["devlin2019bert"]) == "[Devlin et al., 2019](#reference.devlin2019bert)"
    listed = works.list({"vaswani2017attention", "devlin2019bert"})
    assert [name for name, _ in listed] == ["reference.devlin2019bert", "reference.vaswani2017attention"]
    assert listed[1][1].startswith("Ashish Vaswani")
    with pytest.raises(UserError, match="no work 'nobody2020'"):
        works.in_text(["nobody2020"])


def test_markdown_has_formulas_tables_and_code() -> None:
    table = "| a | b |\n|---|--:|\n| `c` | $d$ |"
    shown = markdown_html(f"$a < b$ costs \\$3\n\n$$\nx_1\n$$\n\n{table}\n\n```python\nx = 'y'\n```")
    assert '<p><span class="formula" data-display="inline">a &lt; b</span> costs $3</p>' in shown
    assert '<div class="formula" data-display="block">x_1</div>' in shown
    assert '<td style="text-align:right"><span class="formula" data-display="inline">d</span></td>' in shown
    assert '<pre class="code">x = <span class="s1">\'y\'</span></pre>' in shown


def test_what_is_folded_is_open_below_its_name() -> None:
    solution = new_code_cell("x < 1", metadata={"tags": ["solution", "hide-cell"]})
    solution.outputs = [
        new_output("stream", name="stdout", text="\x1b[31m<red>\x1b[0m\n"),
        new_output("execute_result", data={"text/plain": "True"}, execution_count=1),
    ]
    hint = new_markdown_cell("<details><summary>Hint</summary>\n\nIt is **so**.\n\n</details>")
    drawn = new_code_cell("draw()", metadata={"tags": ["hide-input"]})
    tree = page_tree(notebook_html(new_notebook(cells=[solution, hint, drawn])), "page", {})
    shown = html.tostring(tree, encoding="unicode")
    assert [node.text for node in tree.iter("p") if node.get("class") == "fold-name"] == ["Solution", "Hint", "Code"]
    assert '<pre class="output">&lt;red&gt;</pre><pre class="output">True</pre>' in shown.replace("\n", "")
    assert "<strong>so</strong>" in shown
    assert "details" not in shown


def test_what_needs_a_script_stands_still() -> None:
    played = (
        '<figure onclick="f()"><d2l-beam><script type="application/json">{"a": 1}</script><table><tr><td>7</td></tr>'
        '</table></d2l-beam></figure><label>block <select><option value="0">1</option><option value="1" selected>2'
        "</option></select></label> <button type='button'>go</button><!-- no -->"
    )
    shown = html.tostring(page_tree(played, "page", {}), encoding="unicode")
    assert shown == (
        "<div><figure><div><table><tr><td>7</td></tr></table></div></figure>"
        "<span>block <strong>2</strong></span> <span>go</span></div>"
    )


def test_pictures_become_files_and_headings_places() -> None:
    pictures: dict[str, bytes] = {}
    picture = base64.b64encode(b"png").decode()
    text = f'<h1>A b</h1><h2>C, d</h2><h2>C, d</h2><img src="data:image/png;base64,{picture}" alt="e" loading="lazy">'
    tree = page_tree(text, "page", pictures)
    assert [node.get("id") for node in tree.iter("h1", "h2")] == ["page.a-b", "page.c-d", "page.c-d-1"]
    assert list(pictures.values()) == [b"png"]
    assert dict(tree.find(".//img").attrib) == {"src": next(iter(pictures)), "alt": "e"}


def test_a_quiz_has_its_answers_at_its_end() -> None:
    choices = (Choice("`one`", False, "no, *one* is less"), Choice("two", True, "yes"))
    notebook = new_notebook(cells=[new_markdown_cell("## A section"), new_markdown_cell("## Exercises\n\nDo.")])
    add_quiz(notebook, [Question("How many?", "A section", choices)])
    text = notebook.cells[1].source
    assert notebook.cells[0].source == "## A section"
    assert text.startswith("## Check yourself\n\n")
    assert text.endswith("\n\n## Exercises\n\nDo.")
    asked, _, answers = text.partition("Answers</p>")
    assert "<li><code>one</code></li><li>two</li>" in asked
    assert "Right" not in asked
    assert '<strong>b</strong>. See <a href="#a-section">A section</a>' in answers
    assert "<li>Not so: no, <em>one</em> is less</li><li>Right: yes</li>" in answers


def test_a_link_to_a_section_that_is_not_there_is_refused(book: Path) -> None:
    _complete(book, "# Front\n\n[there](chapters/attention/soft.ipynb#exercises)")
    read_book(book, book / "_build" / "executed", ["index", "soft"])
    (book / "index.md").write_text("# Front\n\n[there](chapters/attention/soft.ipynb#nowhere)")
    with pytest.raises(UserError, match=r"links to what is not there: Front: #attention\.soft\.nowhere"):
        read_book(book, book / "_build" / "executed", ["index", "soft"])


def test_a_book_has_its_pages_in_order_and_tells_what_it_lacks(book: Path) -> None:
    _complete(book, "# Front\n\n<!-- demo: gap -->")
    read = read_book(book, book / "_build" / "executed")
    assert [(page.part, page.title) for page in read.pages] == [
        ("", "About this edition"),
        ("", "Front"),
        ("First words", "Title"),
        ("Attention & more", "Title"),
        ("Attention & more", "References"),
    ]
    first, second = (html.tostring(page.tree, encoding="unicode") for page in read.pages[2:4])
    assert "importlib.util.find_spec" in first
    assert "importlib.util.find_spec" not in second, "the cell that sets up a machine stands once"
    assert "A score of 93.5 (" in html.fromstring(second).text_content()
    assert "This notebook is" not in second
    assert "Bert" in html.tostring(read.pages[4].tree, encoding="unicode").title()
    assert "#reference.devlin2019bert" in second
    assert "index.html" in html.tostring(read.pages[1].tree, encoding="unicode"), "a demonstration is on the site"
    (book / "_build" / "executed" / "chapters" / "attention" / "soft.ipynb").unlink()
    with pytest.raises(UserError, match="not run yet: soft"):
        read_book(book, book / "_build" / "executed")


def test_the_front_page_offers_the_files_that_there_are(tmp_path: Path) -> None:
    files, extra = tmp_path / "files", tmp_path / "extra"
    extra.mkdir()
    text = f"* a\n{MARK}* b\n"
    assert offer(text, files, extra) == "* a\n* b\n"
    assert not list(extra.iterdir())
    files.mkdir()
    (files / "d2lbert.pdf").write_bytes(bytes(2_000_000))
    assert '<a href="files/d2lbert.pdf">PDF</a> (2 MB).\n* b' in offer(text, files, extra)
    (files / "d2lbert.epub").write_bytes(bytes(1_000_000))
    assert '(2 MB) and as <a href="files/d2lbert.epub">EPUB</a> (1 MB).' in offer(text, files, extra)
    assert {path.name for path in (extra / "files").iterdir()} == {"d2lbert.pdf", "d2lbert.epub"}
    assert (ROOT / "index.md").read_text(encoding="utf-8").count(MARK) == 1


def _complete(book: Path, front: str) -> None:
    """Give a small book what the files need besides its chapters."""
    (book / "index.md").write_text(front)
    (book / "references.md").write_text("# References\n")
    contents = book / "_toc.yml"
    contents.write_text(contents.read_text() + "      - file: references\n")
