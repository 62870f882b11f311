"""The book on paper: one long page with a style for print, which Chromium prints.

Chromium makes the outline from the headings, and the links. It knows no page numbers of other places, so the book is
printed twice: the first time tells where each page begins, the second time the contents say it.
"""

from __future__ import annotations

import copy
import html
import io
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import pikepdf
from headless import chromium, printed
from lxml import html as markup
from pygments.formatters import HtmlFormatter
from selenium import webdriver

from book_files.front import cover, cover_text
from book_files.pages import Book, Page
from d2lbert.errors import UserError

PAPERS = {"a4": (210.0, 297.0), "letter": (215.9, 279.4)}  # mm
_HERE = Path(__file__).resolve().parent
_WIDTH, _TOP = 160.0, 22.0  # mm, of the text, and above and below it
_FONTS = [
    *(f"STIXGeneral{style}.ttf" for style in ("", "Bol", "Italic", "BolIta")),
    *(f"DejaVuSansMono{style}.ttf" for style in ("", "-Bold", "-Oblique")),
]
_PATIENCE = 1500  # seconds: the whole book is one page
_PIXELS = 96 / 25.4  # of a browser, in a millimetre
_SETTINGS = {
    "loader": {"load": ["input/tex", "output/chtml"]},
    "options": {"ignoreHtmlClass": "book", "processHtmlClass": "formula", "enableMenu": False},
}
# A formula is one thing for a screen reader, which reads its TeX, and not one thing for each of its signs.
_NAME_FORMULAS = """
for (const formula of MathJax.startup.document.math) {
  formula.typesetRoot.setAttribute("role", "img");
  formula.typesetRoot.setAttribute("aria-label", formula.math);
}
"""
_READY = "const done = arguments[0]; Promise.all([MathJax.startup.promise, document.fonts.ready]).then(() => done(1));"
_HEADINGS = """
return [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
  .map(heading => heading.textContent.trim().replace(/\\s+/g, " "));
"""
_NUMBERS = """
for (const [name, number] of Object.entries(arguments[0]))
  for (const node of document.querySelectorAll(`[data-page="${name}"]`)) node.textContent = number;
"""


def write_pdf(book: Book, target: Path, folder: Path, root: Path, paper: str = "a4") -> int:
    """Print a book; return the number of its pages.

    Args:
        book: to print; its pages stay as they are.
        target: the file.
        folder: gets the page that is printed, with its pictures, fonts and scripts; what was there is replaced.
        root: of the checkout, which has MathJax.
        paper: one of ``PAPERS``.

    Raises:
        UserError: there is no Chromium, a formula cannot be read, or something is wider than the paper.
    """
    page = write_page(book, folder, root, paper)
    with chromium(files=True, seconds=_PATIENCE) as window:
        open_page(window, page)
        problems = fit(window)
        if problems:
            raise UserError("wider than the paper: " + "; ".join(problems[:10]))
        with pikepdf.open(io.BytesIO(printed(window))) as draft:
            window.execute_script(_NUMBERS, _page_numbers(draft, book))
        finished, titles = printed(window), window.execute_script(_HEADINGS)
    target.parent.mkdir(parents=True, exist_ok=True)
    with pikepdf.open(io.BytesIO(finished)) as document:
        _name_outline(document, titles)
        for name, value in (("Title", book.title), ("Author", book.author), ("Subject", book.licence)):
            document.docinfo[f"/{name}"] = value
        # Chromium writes every element of the structure as an object by itself; packed, the file is a third as large.
        document.save(target, object_stream_mode=pikepdf.ObjectStreamMode.generate)
        return len(document.pages)


def open_page(window: webdriver.Chrome, page: Path) -> None:
    """Open what ``write_page`` wrote as it will be printed, with its formulas drawn.

    Raises:
        UserError: a formula cannot be read.
    """
    window.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    size = {"width": round(_WIDTH * _PIXELS), "height": 900, "deviceScaleFactor": 1, "mobile": False}
    window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    window.get(page.as_uri())
    window.execute_async_script(_READY)
    window.execute_script(_NAME_FORMULAS)
    wrong = window.execute_script("return [...document.querySelectorAll('mjx-merror')].map(one => one.textContent)")
    if wrong:
        raise UserError(f"MathJax cannot read: {'; '.join(wrong[:10])}")


def fit(window: webdriver.Chrome) -> list[str]:
    """Make wide things small enough for the paper; return what is still too wide."""
    found: list[str] = window.execute_script((_HERE / "fit.js").read_text(encoding="utf-8"))
    return found


def write_page(book: Book, folder: Path, root: Path, paper: str) -> Path:
    """Write the page to print, with all it needs, into ``folder``; return its path."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "images").mkdir(parents=True)
    (folder / "fonts").mkdir()
    for name, picture in {**book.pictures, "images/cover.png": cover(book)}.items():
        (folder / name).write_bytes(picture)
    for font in _FONTS:
        shutil.copy2(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font, folder / "fonts" / font)
    shutil.copytree(root / "site" / "extra" / "mathjax", folder / "mathjax")
    style = (_HERE / "print.css").read_text(encoding="utf-8") + HtmlFormatter(style="default").get_style_defs(
        "pre.code"
    )
    (folder / "print.css").write_text(style, encoding="utf-8")
    path = folder / "index.html"
    path.write_text(_whole_page(book, paper), encoding="utf-8")
    return path


def _whole_page(book: Book, paper: str) -> str:
    sections, styles = [_contents(book)], [_paper(paper)]
    for number, (part, pages) in enumerate(book.parts()):
        if part:
            sections.append(f'<section class="part" id="part.{number}"><h1>{html.escape(part)}</h1></section>')
        for page in pages:
            name = f"p{len(sections)}"
            styles.append(_running_heads(name, part or book.title, page.title))
            sections.append(f'<section id="{page.id}" style="page: {name}">{_shown(page, bool(part))}</section>')
    return f"""<!DOCTYPE html>
<html lang="{book.language}"><head><meta charset="utf-8"><title>{html.escape(book.title)}</title>
<link rel="stylesheet" href="print.css"><style>{"".join(styles)}</style>
<script>window.MathJax = {json.dumps(_SETTINGS)};</script><script src="mathjax/startup.js"></script></head>
<body class="book">
<section class="cover" style="page: cover"><img src="images/cover.png" alt="{cover_text(book)}"></section>
{"".join(sections)}</body></html>"""


def _paper(paper: str) -> str:
    width, height = PAPERS[paper]
    side = (width - _WIDTH) / 2
    number = "content: counter(page); font: 9pt Book; color: #444;"
    return (
        f"@page {{ size: {width}mm {height}mm; margin: {_TOP}mm {side}mm; @bottom-center {{ {number} }} }}\n"
        f"@page cover {{ margin: 0; @bottom-center {{ content: none }} }}\n"
        f"section.cover img {{ width: {width}mm; height: {height - 0.2}mm; }}\n"
    )


def _running_heads(name: str, left: str, right: str) -> str:
    face = "font: italic 9pt Book; color: #444; white-space: nowrap;"
    sides = (("left", left), ("right", right))
    heads = " ".join(f"@top-{side} {{ content: {_css(text)}; {face} }}" for side, text in sides)
    return f"@page {name} {{ {heads} }}\n"


def _css(text: str) -> str:
    """Return a text as a string of a style sheet that stands inside a page."""
    return '"' + re.sub(r'[\\"<\n]', lambda found: f"\\{ord(found[0]):x} ", text) + '"'


def _shown(page: Page, in_part: bool) -> str:
    """Return the HTML of a page: headings below that of its part, formulas as MathJax reads them."""
    tree = copy.deepcopy(page.tree)
    for heading in list(tree.iter("h1", "h2", "h3", "h4", "h5")):
        heading.set("class", heading.tag)
        if in_part:
            heading.tag = f"h{int(heading.tag[1]) + 1}"
    for formula in tree.iter("span", "div"):
        if formula.get("class") == "formula":
            first, last = (r"\[", r"\]") if formula.get("data-display") == "block" else (r"\(", r"\)")
            formula.text = f"{first}{formula.text}{last}"
    shown: str = markup.tostring(tree, encoding="unicode", method="html")
    return shown


def _contents(book: Book) -> str:
    lines = []
    for number, (part, pages) in enumerate(book.parts()):
        if part:
            lines.append(_entry(f"part.{number}", part, "part"))
        lines += [_entry(page.id, page.title, "") for page in pages]
    return f'<section class="contents"><p class="h1">Contents</p>{"".join(lines)}</section>'


def _entry(name: str, title: str, kind: str) -> str:
    return (
        f'<p class="{kind}"><a href="#{name}">{html.escape(title)}</a><span class="leader"></span>'
        f'<span class="number" data-page="{name}">0</span></p>'
    )


def _page_numbers(draft: pikepdf.Pdf, book: Book) -> dict[str, int]:
    """Return the number of the page on which each part and each page of the book begins."""
    names = {page.id for page in book.pages}
    names |= {f"part.{number}" for number, (part, _) in enumerate(book.parts()) if part}
    numbers = {page.objgen: number for number, page in enumerate(draft.pages, start=1)}
    return {name: numbers[draft.Root.Dests[f"/{name}"][0].objgen] for name in names}


def _name_outline(document: pikepdf.Pdf, titles: list[str]) -> None:
    """Write the titles of the outline anew: Chromium loses a space where a heading wraps, and may write one twice."""
    entries = list(_entries(document.Root.Outlines))
    if len(entries) != len(titles):
        raise UserError(f"{len(titles)} headings, and {len(entries)} of them in the outline")
    for entry, title in zip(entries, titles, strict=True):
        entry.Title = pikepdf.String(title)


def _entries(above: pikepdf.Object) -> Iterator[pikepdf.Object]:
    """Yield the entries of an outline below one of them, in the order of the book."""
    entry = above.get("/First")
    while entry is not None:
        yield entry
        yield from _entries(entry)
        entry = entry.get("/Next")
