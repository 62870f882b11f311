"""From a resolved notebook to the HTML of a page that opens by itself and needs no script."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections import Counter
from typing import Any

import nbformat
from deck_pages import slug
from lxml import etree
from lxml import html as markup
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from notebook_page import FOLDS
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

_PICTURE = re.compile(r'src="data:image/png;base64,([A-Za-z0-9+/=\s]+)"')
_COLOURS = re.compile(r"\x1b\[[\d;]*m")  # of a terminal
_UNCOLOURED = re.compile(r'<span class="(?:n|nn|p|o|w|fm|n[acdefv]|bp)">([^<]*)</span>')
_ATTRIBUTES = {
    "id",
    "class",
    "href",
    "src",
    "alt",
    "style",
    "scope",
    "colspan",
    "rowspan",
    "start",
    "lang",
    "data-display",
}
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LEFT_OUT = ("script", "style", "input", "template")
_SHOWN = {"details": "div", "summary": "p", "button": "span", "label": "span"}
_CLASSES = {"details": "fold", "summary": "fold-name"}


def notebook_html(notebook: nbformat.NotebookNode) -> str:
    """Return the cells of a resolved notebook as HTML: folded cells are open, below the name of their fold."""
    return "\n".join(
        markdown_html(cell.source) if cell.cell_type == "markdown" else _code_cell(cell) for cell in notebook.cells
    )


def markdown_html(text: str) -> str:
    """Return Markdown as HTML; a formula is an element of the class ``formula`` that holds its TeX."""
    rendered: str = _MARKDOWN.render(text)
    return rendered


def page_tree(content: str, name: str, pictures: dict[str, bytes]) -> Any:
    """Return the HTML of a page as a tree of elements that every reader knows.

    Args:
        content: the HTML.
        name: id of the page; ids of its sections begin with it.
        pictures: gets the pictures of the page, by their file names.
    """

    def keep(found: re.Match[str]) -> str:
        picture = base64.b64decode(found[1])
        file = f"images/{hashlib.sha256(picture).hexdigest()[:20]}.png"
        pictures[file] = picture
        return f'src="{file}"'

    tree = markup.fragment_fromstring(_PICTURE.sub(keep, content), create_parent="div")
    for node in list(tree.iter(etree.Comment, *_LEFT_OUT)):
        node.drop_tree()
    for menu in list(tree.iter("select")):
        _show_choice(menu)
    for node in tree.iter():
        _plain_element(node)
    for node in list(tree.iter("p")):  # what a closing tag in raw HTML may leave
        if not len(node) and not (node.text or "").strip():
            node.drop_tree()
    _name_sections(tree, name)
    return tree


def _show_choice(menu: Any) -> None:
    """Replace a menu by what is chosen in it."""
    chosen = menu.xpath(".//option[@selected]") or menu.xpath(".//option[1]")
    text = chosen[0].text_content() if chosen else ""
    for option in list(menu):
        option.drop_tree()
    menu.tag, menu.text = "strong", text


def _plain_element(node: Any) -> None:
    """Replace an element that needs a script, or that a reader must open, by one that shows all it holds."""
    if node.tag in _CLASSES:
        node.set("class", _CLASSES[node.tag])
    node.tag = "div" if node.tag.startswith("d2l-") else _SHOWN.get(node.tag, node.tag)
    for attribute in set(node.attrib) - _ATTRIBUTES:
        del node.attrib[attribute]


def _name_sections(tree: Any, name: str) -> None:
    """Give every heading an id: that of its page, and the anchor that MyST gives to it."""
    seen = Counter[str]()
    for heading in tree.iter(*_HEADINGS):
        anchor = slug(heading.text_content())
        heading.set("id", f"{name}.{anchor}" + (f"-{seen[anchor]}" if seen[anchor] else ""))
        seen[anchor] += 1


def _code_cell(cell: nbformat.NotebookNode) -> str:
    tags = cell.metadata.get("tags", [])
    fold = next((FOLDS[tag] for tag in FOLDS if tag in tags), "")
    name = fold.removeprefix("Show the ").capitalize() if fold.startswith("Show the ") else fold
    lines = [f'<p class="fold-name">{name}</p>'] if name else []
    lines.append(_code(cell.source, "python"))
    return "\n".join(['<div class="cell">', *lines, *map(_output, cell.outputs), "</div>"])


def _output(output: nbformat.NotebookNode) -> str:
    if output.output_type == "stream":
        return _printed(output.text)
    data = output.get("data", {})
    if "text/html" in data:
        return f'<div class="shown">{data["text/html"]}</div>'
    if "text/markdown" in data:
        return f'<div class="shown">{markdown_html(data["text/markdown"])}</div>'
    return _printed(data.get("text/plain", ""))


def _printed(text: str) -> str:
    text = _COLOURS.sub("", text).rstrip()
    return f'<pre class="output">{html.escape(text, quote=False)}</pre>' if text else ""


def _code(text: str, language: str) -> str:
    try:
        lexer = get_lexer_by_name(language)
    except ClassNotFound:
        return f'<pre class="code">{html.escape(text.rstrip(), quote=False)}</pre>'
    inside = highlight(text.rstrip(), lexer, HtmlFormatter(nowrap=True)).rstrip("\n")
    # Names and signs, most of the code, have no colour and need no element.
    plain = _UNCOLOURED.sub(r"\1", inside)
    return f'<pre class="code">{plain}</pre>'


def _formula(text: str, display: bool) -> str:
    tag, kind = ("div", "block") if display else ("span", "inline")
    return f'<{tag} class="formula" data-display="{kind}">{html.escape(text.strip(), quote=False)}</{tag}>'


def _reader() -> MarkdownIt:
    """Return a reader of Markdown with tables, formulas and raw HTML, as the site has them."""
    reader = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
    reader.use(dollarmath_plugin, allow_space=True, allow_digits=True)
    reader.add_render_rule("fence", lambda _, tokens, place, *__: _fence(tokens[place]))
    reader.add_render_rule("math_inline", lambda _, tokens, place, *__: _formula(tokens[place].content, False))
    reader.add_render_rule("math_block", lambda _, tokens, place, *__: _formula(tokens[place].content, True))
    return reader


def _fence(token: Token) -> str:
    return _code(token.content, token.info.strip() or "text")


_MARKDOWN = _reader()
