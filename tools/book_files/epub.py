"""The book as an EPUB 3 file: one XHTML document for each page, formulas as MathML, nothing fetched from elsewhere."""

from __future__ import annotations

import copy
import datetime
import html
import os
import uuid
import zipfile
from pathlib import Path
from typing import Any

from lxml import etree
from lxml import html as markup
from pygments.formatters import HtmlFormatter

from book_files.formulas import Formula, as_mathml
from book_files.front import cover, cover_text
from book_files.pages import Book, Page

_HERE = Path(__file__).resolve().parent
_COVER = "images/cover.png"
_CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
_ACCESSIBILITY = """<meta property="schema:accessMode">textual</meta>
<meta property="schema:accessMode">visual</meta>
<meta property="schema:accessModeSufficient">textual</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
<meta property="schema:accessibilityFeature">MathML</meta>
<meta property="schema:accessibilityFeature">structuralNavigation</meta>
<meta property="schema:accessibilityFeature">tableOfContents</meta>
<meta property="schema:accessibilityHazard">none</meta>
<meta property="schema:accessibilitySummary">Every figure has a description, every formula is MathML.</meta>
"""
_TYPES = {".xhtml": "application/xhtml+xml", ".css": "text/css", ".png": "image/png"}


def write_epub(book: Book, target: Path, root: Path) -> None:
    """Write a book as an EPUB file; it is replaced when the new one is whole.

    Args:
        book: to write; its pages stay as they are.
        target: the file.
        root: of the checkout, which has MathJax.

    Raises:
        UserError: there is no Chromium, or a formula cannot be read.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    formulas = as_mathml([_formula(node) for page in book.pages for node in _formulas(page.tree)], root, target.parent)
    homes = _homes(book)
    files: dict[str, bytes] = {"book.css": _style(), _COVER: cover(book), **book.pictures}
    picture = f'<section class="cover" epub:type="cover"><img src="{_COVER}" alt="{cover_text(book)}"/></section>'
    files["cover.xhtml"] = _document(book, "Cover", picture)
    for number, (part, pages) in enumerate(book.parts()):
        if part:
            files[f"part-{number}.xhtml"] = _document(
                book, part, f'<section epub:type="part"><h1>{html.escape(part)}</h1></section>'
            )
        for page in pages:
            files[homes[page.id]] = _document(book, page.title, _shown(page, homes, formulas))
    files["nav.xhtml"] = _document(book, "Contents", _navigation(book, homes))
    files["package.opf"] = _package(book, files).encode()
    _pack(files, target)


def _style() -> bytes:
    colours = HtmlFormatter(style="bw").get_style_defs("pre.code")
    return f"{(_HERE / 'epub.css').read_text(encoding='utf-8')}{colours}\n".encode()


def _homes(book: Book) -> dict[str, str]:
    """Return the file of each id of the book."""
    homes = {}
    for page in book.pages:
        file = f"{page.id.replace('.', '-')}.xhtml"
        homes[page.id] = file
        homes |= {node.get("id"): file for node in page.tree.iter() if node.get("id")}
    return homes


def _formulas(tree: Any) -> list[Any]:
    return [node for node in tree.iter("span", "div") if node.get("class") == "formula"]


def _formula(node: Any) -> Formula:
    return node.text, node.get("data-display") == "block"


def _shown(page: Page, homes: dict[str, str], formulas: dict[Formula, Any]) -> str:
    """Return a page as XHTML."""
    tree = copy.deepcopy(page.tree)
    for link in tree.iter("a"):
        target = link.get("href", "")
        if target.startswith("#"):
            home = homes[target[1:]]
            link.set("href", home if target[1:] == page.id or _is_page(target[1:], homes) else home + target)
    for node in _formulas(tree):
        formula = copy.deepcopy(formulas[_formula(node)])
        node.text = None
        del node.attrib["data-display"]
        node.append(formula)
    markup.html_to_xhtml(tree)
    tree.tag = f"{{{markup.XHTML_NAMESPACE}}}section"
    tree.set("id", page.id)
    shown: str = etree.tostring(tree, encoding="unicode")
    return shown


def _is_page(name: str, homes: dict[str, str]) -> bool:
    return homes[name] == f"{name.replace('.', '-')}.xhtml"


def _document(book: Book, title: str, body: str) -> bytes:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" {_language(book)}>
<head><title>{html.escape(title)}</title><link rel="stylesheet" type="text/css" href="book.css"/></head>
<body>{body}</body>
</html>
""".encode()


def _language(book: Book) -> str:
    return f'lang="{book.language}" xml:lang="{book.language}"'


def _navigation(book: Book, homes: dict[str, str]) -> str:
    items = []
    for number, (part, pages) in enumerate(book.parts()):
        entries = "".join(_entry(homes[page.id], page.title) for page in pages)
        if part:
            first = f'<a href="part-{number}.xhtml">{html.escape(part)}</a>'
            entries = f"<li>{first}<ol>{entries}</ol></li>"
        items.append(entries)
    return (
        f'<nav epub:type="toc" id="toc"><h1>Contents</h1><ol>{"".join(items)}</ol></nav>'
        '<nav epub:type="landmarks" hidden="hidden"><ol><li><a epub:type="cover" href="cover.xhtml">Cover</a></li>'
        f'<li><a epub:type="bodymatter" href="{homes[book.pages[0].id]}">Start</a></li></ol></nav>'
    )


def _entry(file: str, title: str) -> str:
    return f'<li><a href="{file}">{html.escape(title)}</a></li>'


def _package(book: Book, files: dict[str, bytes]) -> str:
    """Return the package document: what the book is, its files, and their order."""
    name = uuid.uuid5(uuid.NAMESPACE_URL, f"{book.addresses.site}{book.version}")
    items = "\n".join(_item(file, content) for file, content in files.items())
    pages = [file for file in files if file.endswith(".xhtml") and file not in ("cover.xhtml", "nav.xhtml")]
    order = "".join(f'<itemref idref="{_id(file)}"/>' for file in ("cover.xhtml", "nav.xhtml", *pages))
    now = _now()
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="name" xml:lang="{book.language}">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="name">urn:uuid:{name}</dc:identifier>
<dc:title>{html.escape(book.title)}</dc:title>
<dc:creator>{html.escape(book.author)}</dc:creator>
<dc:language>{book.language}</dc:language>
<dc:date>{now:%Y-%m-%d}</dc:date>
<dc:rights>{html.escape(book.licence)}</dc:rights>
<dc:source>{html.escape(book.addresses.site)}</dc:source>
<meta property="dcterms:modified">{now:%Y-%m-%dT%H:%M:%SZ}</meta>
{_ACCESSIBILITY}</metadata>
<manifest>
{items}
</manifest>
<spine>{order}</spine>
</package>
"""


def _now() -> datetime.datetime:
    """Return the time, or the one that SOURCE_DATE_EPOCH says: then the same book makes the same bytes."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    return datetime.datetime.fromtimestamp(int(said), datetime.UTC) if said else datetime.datetime.now(datetime.UTC)


def _id(file: str) -> str:
    return "f-" + file.replace("/", "-")


def _item(file: str, content: bytes) -> str:
    properties = {"nav.xhtml": "nav", _COVER: "cover-image"}.get(file, "")
    if b"<math " in content and file.endswith(".xhtml"):
        properties = "mathml"
    told = f' properties="{properties}"' if properties else ""
    return f'<item id="{_id(file)}" href="{file}" media-type="{_TYPES[Path(file).suffix]}"{told}/>'


def _pack(files: dict[str, bytes], target: Path) -> None:
    """Write the archive; its first file says, uncompressed, what it is."""
    new = target.with_name(f"{target.name}.new")
    with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry_of("mimetype"), "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr(_entry_of("META-INF/container.xml"), _CONTAINER, zipfile.ZIP_DEFLATED)
        for file, content in files.items():
            archive.writestr(_entry_of(f"book/{file}"), content, zipfile.ZIP_DEFLATED)
    new.replace(target)


def _entry_of(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)  # the same date on every day
    entry.external_attr = 0o644 << 16
    return entry
