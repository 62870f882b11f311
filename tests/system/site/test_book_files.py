"""The PDF and the EPUB file of a small book: nothing is cut off, nothing is lost, every link leads somewhere."""

from __future__ import annotations

import copy
import posixpath
import re
import shutil
import subprocess
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pikepdf
import pytest
from book_files.epub import write_epub
from book_files.pages import Book, read_book
from book_files.pdf import fit, open_page, write_page, write_pdf
from headless import chromium
from lxml import etree
from pypdf import PdfReader
from run_notebook import execute
from selenium import webdriver

ROOT = Path(__file__).resolve().parents[3]
CHAPTERS = [Path("chapters/attention/attention.ipynb"), Path("chapters/attention/self_attention.ipynb")]
PAGES = {"index", "notation", "dive_4", "glossary", *(path.stem for path in CHAPTERS)}
XHTML = "{http://www.w3.org/1999/xhtml}"
EPUB = "{http://www.idpf.org/2007/ops}"
MATHML = "{http://www.w3.org/1998/Math/MathML}"

_UNDRAWN = "return document.querySelectorAll('.formula:not(:has(> mjx-container))').length"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def book(needs_chromium: None) -> Book:
    """Two chapters, which are run where they have changed, and the kinds of pages that are no chapters."""
    runs = [execute(path, ROOT, ROOT / "_build" / "executed", {}) for path in CHAPTERS]
    assert not [run.error for run in runs if run.error]
    return read_book(ROOT, ROOT / "_build" / "executed", PAGES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def pdf(book: Book, folder: Path) -> Path:
    write_pdf(book, folder / "book.pdf", folder / "print", ROOT)
    return folder / "book.pdf"


@pytest.fixture(scope="module")
def text(pdf: Path) -> list[str]:
    """The text of each page of the PDF, squeezed."""
    return [squeezed(page.extract_text()) for page in PdfReader(pdf).pages]


@pytest.fixture(scope="module")
def epub(book: Book, folder: Path) -> Path:
    write_epub(book, folder / "book.epub", ROOT)
    return folder / "book.epub"


@pytest.fixture(scope="module")
def documents(epub: Path) -> dict[str, Any]:
    """Every XHTML document of the EPUB file, by its name."""
    with zipfile.ZipFile(epub) as archive:
        names = [name for name in archive.namelist() if name.endswith(".xhtml")]
        return {name: etree.fromstring(archive.read(name)) for name in names}


def outline(document: pikepdf.Pdf) -> list[tuple[str, int]]:
    """Title and page number of each entry, in order."""
    numbers = {page.objgen: number for number, page in enumerate(document.pages, start=1)}
    found = []

    def take(items: list[Any]) -> None:
        for item in items:
            place = item.destination if item.destination is not None else item.action.D
            place = document.Root.Dests[f"/{str(place).lstrip('/')}"] if not isinstance(place, pikepdf.Array) else place
            found.append((item.title, numbers[place[0].objgen]))
            take(item.children)

    with document.open_outline() as root:
        take(list(root.root))
    return found


def squeezed(text: str) -> str:
    """Return a text without white space, for where a line breaks means nothing, and without ligatures."""
    return "".join(unicodedata.normalize("NFKC", text).split())


def cells(kind: str) -> list[Any]:
    notebooks = [nbformat.read(ROOT / "_build" / "executed" / path, as_version=4) for path in CHAPTERS]
    return [cell for notebook in notebooks for cell in notebook.cells if cell.cell_type == kind]


def test_the_outline_has_every_heading_where_it_stands(book: Book, pdf: Path, text: list[str]) -> None:
    with pikepdf.open(pdf) as document:
        entries = outline(document)
    titles = [title for title, _ in entries]
    assert {page.title for page in book.pages} | {page.part for page in book.pages if page.part} <= set(titles)
    assert {"Exercises", "Check yourself", "Masks"} <= set(titles)
    assert [title for title, number in entries if squeezed(title) not in text[number - 1]] == []


def test_the_contents_say_the_right_pages(book: Book, pdf: Path, text: list[str]) -> None:
    with pikepdf.open(pdf) as document:
        begins = dict(reversed(outline(document)))
    contents = text[1]
    for page in book.pages:
        assert f"{squeezed(page.title)}{begins[page.title]}" in contents


def test_long_lines_of_code_and_of_output_are_whole(text: list[str]) -> None:
    lines = [line for cell in cells("code") for line in cell.source.splitlines()]
    for cell in cells("code"):
        lines += [line for one in cell.outputs if one.output_type == "stream" for line in one.text.splitlines()]
    long = [line for line in lines if len(line) > 70 and "Toy data" not in line]
    assert len(long) > 20
    whole = "".join(text)
    ends = [end for line in long for end in (line.split()[0], line.split()[-1])]
    assert [end for end in ends if end not in whole] == []


def test_solutions_are_open(text: list[str]) -> None:
    whole = "".join(text)
    coded = [cell.source for cell in cells("code") if "solution" in cell.metadata.get("tags", [])]
    said = [
        answer
        for cell in cells("markdown")
        for answer in re.findall(r"</summary>(.+?)</details>", cell.source, flags=re.DOTALL)
    ]
    assert len(coded) > 3
    assert len(said) > 5
    first = [squeezed(source.splitlines()[-1]) for source in coded]
    words = [squeezed(re.split(r"[$`*\[{(]", answer.strip())[0])[:40] for answer in said]
    assert [one for one in first + words if one not in whole] == []


def test_no_markup_is_left(book: Book) -> None:
    for page in book.pages:
        tree = copy.deepcopy(page.tree)
        for node in list(tree.iter("pre", "code", "span", "div")):
            if node.tag in ("pre", "code") or node.get("class") == "formula":
                node.drop_tree()
        text = tree.text_content()
        assert not [raw for raw in ("\\", "$", "{", ":::", "<", "**", "`") if raw in text], page.title


def test_every_link_of_the_pdf_leads_to_a_place(book: Book, pdf: Path) -> None:
    wanted = [link for page in book.pages for link in page.tree.iter("a") if link.get("href", "").startswith("#")]
    inner, lost = 0, []
    with pikepdf.open(pdf) as document:
        for page in document.pages:
            for annotation in page.get("/Annots", []):
                place = annotation.get("/Dest", annotation.get("/A", {}).get("/D", None))
                if place is not None and not isinstance(place, pikepdf.Array):
                    inner += 1
                    lost += [str(place)] * (f"/{str(place).lstrip('/')}" not in document.Root.Dests)
                assert "file:" not in str(annotation.get("/A", {}).get("/URI", ""))
    assert inner >= len(wanted) + len(book.pages) > 60  # those of the contents, too; what wraps is two links
    assert lost == []


def test_what_is_wider_than_the_paper_is_told_or_gets_smaller(book: Book, folder: Path, needs_chromium: None) -> None:
    page = write_page(book, folder / "wide", ROOT, "a4")
    words = "".join(f"<td>incomprehensibilities{number}</td>" for number in range(8))
    narrow = f"<table id='narrow'><tr>{words}</tr></table><p>\\(x\\)</p>"
    whole = page.read_text(encoding="utf-8")

    def problems(window: webdriver.Chrome, more: str) -> list[str]:
        page.write_text(whole.replace("</body>", f"<section><h2>More</h2>{more}</section></body>"), encoding="utf-8")
        open_page(window, page)
        return fit(window)

    with chromium(files=True) as window:
        assert problems(window, narrow) == []
        assert window.execute_script(_UNDRAWN) == 0
        assert "breaks" in window.execute_script("return document.getElementById('narrow').className")
        found = problems(window, f"<pre style='white-space: pre'>{'x' * 200}</pre><div style='width: 170mm'>a</div>")
    assert any(one.startswith("More: DIV a") for one in found)


def test_epubcheck_finds_nothing(epub: Path) -> None:
    program = shutil.which("epubcheck")
    if program is None or shutil.which("java") is None:
        pytest.skip("needs epubcheck and Java (Debian: apt-get install epubcheck)")
    resolved = Path(program).resolve()
    command = ["java", "-jar", str(resolved)] if resolved.suffix == ".jar" else [program]
    run = subprocess.run([*command, str(epub)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "0 fatals / 0 errors / 0 warnings" in run.stdout + run.stderr


def test_every_picture_is_there_and_described(epub: Path, documents: dict[str, Any]) -> None:
    with zipfile.ZipFile(epub) as archive:
        names = set(archive.namelist())
    pictures = [(name, node) for name, tree in documents.items() for node in tree.iter(f"{XHTML}img")]
    assert len(pictures) > 10
    for name, node in pictures:
        assert posixpath.join(posixpath.dirname(name), node.get("src")) in names
        assert len(node.get("alt")) > 20


def test_every_link_of_the_epub_leads_to_a_place(documents: dict[str, Any]) -> None:
    places = {name: {node.get("id") for node in tree.iter()} for name, tree in documents.items()}
    inner = 0
    for name, tree in documents.items():
        for link in tree.iter(f"{XHTML}a"):
            file, _, anchor = link.get("href").partition("#")
            if ":" in file:
                continue
            inner += 1
            target = posixpath.join(posixpath.dirname(name), file) if file else name
            assert target in places, f"{name}: {link.get('href')}"
            assert not anchor or anchor in places[target], f"{name}: {link.get('href')}"
    assert inner > 60


def test_formulas_are_mathml(book: Book, documents: dict[str, Any]) -> None:
    wanted = [node for page in book.pages for node in page.tree.iter() if node.get("class") == "formula"]
    made = [node for tree in documents.values() for node in tree.iter(f"{MATHML}math")]
    assert len(made) == len(wanted) > 100
    assert {node.get("alttext") for node in made} == {node.text for node in wanted}
    assert all(len(node) for node in made)


def test_the_navigation_has_every_page(book: Book, documents: dict[str, Any]) -> None:
    navigation = documents["book/nav.xhtml"].find(f".//{XHTML}nav[@{EPUB}type='toc']")
    titles = [link.text for link in navigation.iter(f"{XHTML}a")]
    assert [title for title in titles if title in {page.title for page in book.pages}] == [
        page.title for page in book.pages
    ]
    assert {page.part for page in book.pages if page.part} <= set(titles)


def test_nothing_in_the_files_is_fetched_from_elsewhere(documents: dict[str, Any]) -> None:
    assert not [name for name, tree in documents.items() for node in tree.iter() if ":" in node.get("src", "")]
    assert not [name for name, tree in documents.items() if tree.find(f".//{XHTML}script") is not None]
