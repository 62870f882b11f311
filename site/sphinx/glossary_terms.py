"""A Sphinx extension: a term of the glossary, where a chapter first uses it, has its meaning and leads to its section.

``site/style/terms.js`` shows the meaning when the pointer or the focus is on the term. Without it the term is a link.
Names with parentheses, such as ``head (of a model)``, and words that the book uses in other senses as well stay plain.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docutils import nodes
from glossary_index import GLOSSARY, section_anchor
from sphinx.application import Sphinx

_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+)\.(?:ipynb|md)#([^)]+)\) \| (.+?) \|$", flags=re.MULTILINE)
_OTHER_SENSES = {
    "block",
    "clipping",
    "drain",
    "export",
    "fusion",
    "guard",
    "image",
    "kernel",
    "key",
    "leak",
    "memory",
    "state",
    "step",
    "test",
    "train",
    "value",
    "window",
}
# Where a term is a name of something else, or the reader is not reading.
_NOT_INSIDE = (
    nodes.reference,
    nodes.literal,
    nodes.math,
    nodes.title,
    nodes.Admonition,
    nodes.table,
    nodes.caption,
)


@dataclass(frozen=True)
class Term:
    """A term, the document and the heading that explain it, and what it means in a line."""

    name: str
    document: str
    heading: str
    meaning: str

    @property
    def pattern(self) -> str:
        """What finds the term in a sentence, also in the plural and, unless it has capitals, where one begins."""
        name = re.escape(self.name).replace(r"\ ", r"\s+")
        if self.name == self.name.lower():
            name = f"(?i:{name[0]}){name[1:]}" if name[0].isalpha() else name
        return rf"(?<![\w-]){name}s?(?![\w-])"


class book_term(nodes.inline):
    """A term on a page, with the attributes ``address`` and ``meaning``."""


def read_terms(glossary: str) -> list[Term]:
    """Return the terms of a glossary, the longest first; each name of a row is one."""
    found = []
    for names, path, heading, meaning in _ROW.findall(glossary):
        document = posixpath.normpath(posixpath.join(posixpath.dirname(GLOSSARY), path))
        plain = meaning.replace("`", "").replace("\\|", "|")
        single = [name for name in names.split(", ") if "(" not in name and name not in _OTHER_SENSES]
        found += [Term(name, document, heading, plain) for name in single]
    return sorted(found, key=lambda term: (-len(term.name), term.name))


def mark_terms(tree: nodes.document, terms: list[Term], address: Any) -> list[str]:
    """Mark the first use of each term in the paragraphs of a page; return the names of those that were found.

    Args:
        tree: the page.
        terms: longer ones first, so that *masked language model* is not taken for *language model*.
        address: a function from a term to the address of its section, seen from the page.
    """
    left = {term.name: term for term in terms}
    found = []
    for text in list(tree.findall(nodes.Text)):
        if not left or not _is_prose(text):
            continue
        parts, rest = [], text.astext()
        while match := _first(rest, left):
            term, start, end = match
            parts += [nodes.Text(rest[:start])] if start else []
            parts.append(book_term("", rest[start:end], address=address(term), meaning=term.meaning))
            found.append(left.pop(term.name).name)
            rest = rest[end:]
        if parts:
            text.parent.replace(text, [*parts, nodes.Text(rest)] if rest else parts)
    return found


def _first(text: str, terms: dict[str, Term]) -> tuple[Term, int, int] | None:
    """Return the term that a text has first, of two at one place the longer one, with where it begins and ends."""
    hits = [(match.start(), -match.end(), term) for term in terms.values() if (match := re.search(term.pattern, text))]
    if not hits:
        return None
    start, end, term = min(hits, key=lambda hit: hit[:2])
    return term, start, -end


def _is_prose(text: nodes.Text) -> bool:
    node, inside = text.parent, False
    while node is not None:
        if isinstance(node, _NOT_INSIDE):
            return False
        inside = inside or isinstance(node, nodes.paragraph)
        node = node.parent
    return inside


def _mark(app: Sphinx, tree: nodes.document, document: str) -> None:
    if app.builder.format != "html" or not document.startswith("chapters/") or document == GLOSSARY:
        return

    def address(term: Term) -> str:
        anchor = section_anchor(app.env, term.document, term.heading)
        page = "" if term.document == document else app.builder.get_relative_uri(document, term.document)
        return f"{page}#{anchor}"

    mark_terms(tree, [term for term in app.env.glossary_terms if term.document in app.env.found_docs], address)


def _read(app: Sphinx) -> None:
    path = Path(app.srcdir) / f"{GLOSSARY}.md"
    app.env.glossary_terms = read_terms(path.read_text(encoding="utf-8")) if path.is_file() else []


def _begin(self: Any, node: book_term) -> None:
    self.body.append(
        self.starttag(node, "a", "", CLASS="book-term", HREF=node["address"], **{"data-meaning": node["meaning"]})
    )


def _end(self: Any, node: book_term) -> None:
    self.body.append("</a>")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_node(book_term, html=(_begin, _end))
    app.connect("builder-inited", _read)
    app.connect("doctree-resolved", _mark)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
