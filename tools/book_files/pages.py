"""The pages of the whole book, in the order of ``_toc.yml``, as trees of plain HTML with their pictures."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import yaml
from addresses import Addresses, read_addresses
from deck_pages import page_text
from errata import PAGE as ERRATA
from errata import errata_page
from notebook_page import toy_boxes
from plans import with_plans
from portable import Page as Resolving
from portable import portable, resolve
from publish_notebooks import check_copies
from quizzes import read_quiz

from book_files.front import about
from book_files.links import InnerAddresses, InnerWorks
from book_files.markup import markdown_html, notebook_html, page_tree
from book_files.offer import MARK
from book_files.quiz import add_quiz
from d2lbert import __version__
from d2lbert.errors import UserError

_SOURCE = re.compile(r"\A> This notebook is .*\n>\n")  # in a file that says it once
_DEMO = re.compile(r"^<!-- demo: \w+ -->$", flags=re.MULTILINE)
_TRY = "> **On the site.** Here a small BERT answers in the page: <{address}>"


@dataclass(frozen=True)
class Page:
    """A page of the book.

    Fields:
        id: of the page, by which links find it; the ids of its sections begin with it and a full stop.
        title: its heading.
        part: the caption of its part; empty before the first one.
        tree: its HTML, an element ``div``.
    """

    id: str
    title: str
    part: str
    tree: Any


@dataclass(frozen=True)
class Book:
    """The whole book.

    Fields:
        title, author, language, version, licence, commit: for title page and catalogues.
        addresses: of the site and of the repository.
        pages: in order.
        pictures: by their file names, as the pages call them.
    """

    title: str
    author: str
    language: str
    version: str
    licence: str
    commit: str
    addresses: Addresses
    pages: list[Page] = field(default_factory=list)
    pictures: dict[str, bytes] = field(default_factory=dict)

    def parts(self) -> list[tuple[str, list[Page]]]:
        """Return the pages by part."""
        parts: dict[str, list[Page]] = {}
        for page in self.pages:
            parts.setdefault(page.part, []).append(page)
        return list(parts.items())


def read_book(root: Path, executed: Path, chosen: Collection[str] | None = None) -> Book:
    """Return the book at ``root``, whose executed copies lie in ``executed``.

    Args:
        root: of the checkout.
        executed: the folder of the copies.
        chosen: slugs of the pages to take beside the references, for a smaller book; all by default.

    Raises:
        UserError: a chapter has no executed copy or has changed since, its text cannot be resolved, or a link
            leads to a section that is not there.
    """
    files = [(part, path) for part, path in _contents(root) if chosen is None or path.stem in {*chosen, "references"}]
    check_copies(root, executed, [path for _, path in files if path.suffix == ".ipynb"])
    config = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))
    book = Book(
        title=config["title"],
        author=config["author"],
        language="en",
        version=__version__,
        licence=config["html"]["extra_footer"].strip(),
        commit=_commit(root),
        addresses=read_addresses(root),
    )
    pages = {path: ".".join(path.with_suffix("").parts).removeprefix("chapters.") for _, path in files}
    writer = _Writer(root, executed, book, InnerAddresses.of(book.addresses, pages))
    book.pages.append(Page("about", "About this edition", "", page_tree(markdown_html(about(book)), "about", {})))
    for part, path in files:
        book.pages.append(writer.page(part, path))
    _check_links(book)
    return book


class _Writer:
    """What the pages of one book share.

    Args:
        root, executed: of the checkout, and of the copies.
        book: gets the pictures.
        addresses: where links lead.
    """

    def __init__(self, root: Path, executed: Path, book: Book, addresses: InnerAddresses) -> None:
        self._root, self._executed, self._book, self._addresses = root, executed, book, addresses
        self._works = InnerWorks(root / "references.bib", addresses.page(Path("references.md")))
        self._cited: set[str] = set()
        self._set_up = False  # whether a chapter has shown the cell that sets up a machine

    def page(self, part: str, path: Path) -> Page:
        """Return the page of a file, which is given relative to the root."""
        name = self._addresses.pages[path]
        if path == Path("references.md"):
            content = self._references()
        else:
            content = self._notebook(path) if path.suffix == ".ipynb" else self._text(path)
        tree = page_tree(content, name, self._book.pictures)
        title = tree.find(".//h1")
        if title is None:
            raise UserError(f"{path}: no heading of the first level")
        return Page(name, title.text_content(), part, tree)

    def _notebook(self, path: Path) -> str:
        notebook = nbformat.read(self._executed / path, as_version=4)
        bank = self._root / "chapters" / "quizzes" / f"{path.stem}.yaml"
        if bank.is_file():
            add_quiz(notebook, read_quiz(bank))
        for cell in notebook.cells:
            self._cited |= _cited(cell.source) if cell.cell_type == "markdown" else set()
            if cell.cell_type == "code":
                cell.outputs = [shown for output in cell.outputs for shown in toy_boxes(output)]
            cell.source = self._without_demos(cell.source, path)
        made = portable(notebook, path, self._addresses, self._works)
        made.cells = [cell for cell in made.cells if cell.id != "references" and not self._is_known(cell)]
        for cell in made.cells:
            cell.source = _SOURCE.sub("", cell.source)
        return notebook_html(made)

    def _is_known(self, cell: nbformat.NotebookNode) -> bool:
        """Return whether a cell sets up a lent machine, as that of an earlier chapter does word for word."""
        if "colab" not in cell.metadata.get("tags", []):
            return False
        known, self._set_up = self._set_up, True
        return known

    def _text(self, path: Path) -> str:
        text = errata_page(self._root) if path == ERRATA else page_text(self._root / path)
        text = self._without_demos(with_plans(text), path).replace(MARK, "")
        text = text.replace('href="../../', f'href="{self._book.addresses.site}')  # what the site alone has
        self._cited |= _cited(text)
        return markdown_html(resolve(text, Resolving(path, path.stem, self._addresses, self._works, {})))

    def _without_demos(self, text: str, path: Path) -> str:
        address = self._book.addresses.page(path)
        return _DEMO.sub(_TRY.format(address=address), text)

    def _references(self) -> str:
        """Return the list of the works that the pages before it cite."""
        works = self._works.list(self._cited)
        items = "".join(f'<li id="{name}">{_inline(text)}</li>' for name, text in works)
        return f'<h1>References</h1>\n<ul class="references">{items}</ul>'


def _contents(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield part and path of every page of the table of contents, the front page first.

    The pages of the reference are made for the site alone.
    """
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    yield "", Path(f"{contents['root']}.md")
    for part in contents["parts"]:
        for page in part["chapters"]:
            path = Path(f"{page['file']}.ipynb")
            if not path.is_relative_to("reference"):
                yield part["caption"], path if (root / path).is_file() else path.with_suffix(".md")


def _cited(text: str) -> set[str]:
    found = re.findall(r"\{cite(?::[tp])?\}`([^`]+)`", text)
    return {key.strip() for keys in found for key in keys.split(",")}


def _inline(text: str) -> str:
    return markdown_html(text).strip().removeprefix("<p>").removesuffix("</p>")


def _commit(root: Path) -> str:
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def _check_links(book: Book) -> None:
    """Refuse a book that has a link to a place which is not in it."""
    places = {page.id for page in book.pages}
    for page in book.pages:
        places |= {node.get("id") for node in page.tree.iter() if node.get("id")}
    lost = []
    for page in book.pages:
        for link in page.tree.iter("a"):
            target = unquote(link.get("href", ""))
            if target.startswith("#"):
                link.set("href", target)
                lost += [f"{page.title}: {target}"] * (target[1:] not in places)
    if lost:
        raise UserError(f"links to what is not there: {'; '.join(lost)}")
