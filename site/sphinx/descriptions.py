"""A Sphinx extension: what others show of a page before it is opened, a map of all pages, one for a wrong address.

A page is described by what its reader will be able to do, which every chapter says, or else by its first paragraph.
"""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_OUTCOME = "You will be able to "
_LONGEST = 160  # characters that a search engine shows


def described(doctree: nodes.Node) -> str:
    """Return the description of a page, whole words of at most ``_LONGEST`` characters; empty without a paragraph."""
    texts = [" ".join(one.astext().split()) for one in doctree.findall(nodes.paragraph)]
    texts = [text for text in texts if text]
    outcomes = [text.removeprefix(_OUTCOME) for text in texts if text.startswith(_OUTCOME)]
    chosen = next(iter([*outcomes, *texts]), "")
    chosen = chosen[:1].upper() + chosen[1:]
    if len(chosen) <= _LONGEST:
        return chosen
    return chosen[: _LONGEST - 1].rpartition(" ")[0].rstrip(",;:") + " …"


def meta_tags(title: str, description: str, book: str, address: str) -> str:
    """Return the tags of a page: for search engines, and those of Open Graph for a link that is sent on."""
    properties = {"title": title, "type": "article", "site_name": book, "url": address, "description": description}
    tags = [f'<meta name="description" content="{html.escape(description)}">']
    tags += [f'<meta property="og:{name}" content="{html.escape(value)}">' for name, value in properties.items()]
    return "\n".join(tags)


def _describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    if doctree is None:
        return
    title, address = app.env.titles[page].astext(), f"{app.config.html_baseurl}{page}.html"
    context["metatags"] += "\n" + meta_tags(title, described(doctree), app.config.html_title, address)


def _finish(app: Sphinx, error: Exception | None) -> None:
    if error is not None or app.builder.format != "html":
        return
    out, base = Path(app.outdir), app.config.html_baseurl
    addresses = [f"<url><loc>{html.escape(base + page)}.html</loc></url>" for page in sorted(app.env.found_docs)]
    (out / "sitemap.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        + "\n".join(addresses)
        + "\n</urlset>\n",
        encoding="utf-8",
    )
    (out / "404.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Page not found</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,"></head>'
        f'<body><main><h1>Page not found</h1><p>This address leads nowhere. <a href="{base}">To the book</a>, '
        f'<a href="{base}search.html">to its search</a>.</p></main></body></html>\n',
        encoding="utf-8",
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("html-page-context", _describe)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
