"""A Sphinx extension: every term of the glossary is in the index, and finds the section that explains it first.

Sphinx's search knows which words a page has, not how often; what the index says goes before. So the terms of
``chapters/start/glossary.md`` become index entries of the sections that they lead to.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

GLOSSARY = "chapters/start/glossary"
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)#]+)\.(?:ipynb|md)#([^)]+)\) \|", flags=re.MULTILINE)

Terms = dict[str, list[tuple[str, str]]]  # document -> its terms, each with the heading that explains it


def terms(glossary: str) -> Terms:
    """Return the terms of a glossary by the document that explains them.

    A row may have several names, ``adapter, LoRA``. A name with hyphens is also found without them, and one with
    parentheses, ``head (of a model)``, without these.

    Args:
        glossary: the text of the page.
    """
    found: Terms = defaultdict(list)
    for names, path, heading in _ROW.findall(glossary):
        document = posixpath.normpath(posixpath.join(posixpath.dirname(GLOSSARY), path))
        for name in names.split(", "):
            plain = re.sub(r"[()]", "", name)
            found[document] += [(form, heading) for form in dict.fromkeys((plain, plain.replace("-", " ")))]
    return dict(found)


def _read_terms(app: Sphinx) -> None:
    path = Path(app.srcdir) / f"{GLOSSARY}.md"
    app.env.book_terms = terms(path.read_text(encoding="utf-8")) if path.is_file() else {}


def section_anchor(env: BuildEnvironment, document: str, heading: str) -> str:
    """Return the anchor in the page of a heading, given as links name it."""
    slugs = env.metadata[document].get("myst_slugs", {})
    return slugs[heading][1] if heading in slugs else heading


def _add_entries(app: Sphinx, doctree: nodes.document) -> None:
    document = app.env.docname
    entries = []
    for term, heading in app.env.book_terms.get(document, []):
        anchor = section_anchor(app.env, document, heading)
        entries.append(("single", term.replace(";", ","), anchor, "main", None))
    if entries:
        doctree.insert(0, addnodes.index(entries=entries))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("builder-inited", _read_terms)
    app.connect("doctree-read", _add_entries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
