"""The Markdown of a chapter in blocks and sentences, and as HTML for a slide."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

_DETAILS = re.compile(r"<details>.*?</details>|<!--.*?-->", flags=re.DOTALL)
# What a sentence cannot end in: code, mathematics, links, what stands in brackets.
_WHOLE = re.compile(r"`[^`]*`|\$[^$]*\$|!?\[[^\]]*\]\([^)]*\)|\([^()]*(?:\([^()]*\)[^()]*)*\)")
_END = re.compile(r"[.!?][\"”'*_)]*(?=\s+[\"“*_`(\[$]*[A-Z0-9\x00]|\s*$)")
_KINDS = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "bullet_list_open": "list",
    "ordered_list_open": "list",
    "math_block": "formula",
    "table_open": "table",
    "fence": "code",
}


@dataclass(frozen=True)
class Block:
    """A block of Markdown: its kind (heading, paragraph, list, formula, table, code) and its source.

    The source of a heading is its words, that of code its lines; ``level`` is that of a heading, ``language`` of code.
    """

    kind: str
    text: str
    level: int = 0
    language: str = ""


def _reader() -> MarkdownIt:
    """Return a reader of Markdown that leaves formulas to MathJax."""
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.use(dollarmath_plugin, allow_labels=False, renderer=lambda text, _: html.escape(text, quote=False))
    made.add_render_rule("math_inline", _inline)
    made.add_render_rule("math_block", _display)
    return made


def _inline(self: object, tokens: list, number: int, *_: object) -> str:
    return rf'<span class="math">\({html.escape(tokens[number].content, quote=False)}\)</span>'


def _display(self: object, tokens: list, number: int, *_: object) -> str:
    return rf'<div class="math">\[{html.escape(tokens[number].content, quote=False)}\]</div>'


_READER = _reader()


def blocks(markdown: str) -> list[Block]:
    """Return the blocks of a text in order. What is folded, boxes and HTML are left out."""
    text = _DETAILS.sub("", markdown)
    lines = text.splitlines()
    found = []
    tokens = _READER.parse(text)
    for number, token in enumerate(tokens):
        kind = _KINDS.get(token.type)
        if kind is None or token.level or token.map is None:
            continue
        source = "\n".join(lines[slice(*token.map)]).strip()
        if kind == "heading":
            found.append(Block(kind, tokens[number + 1].content, level=int(token.tag[1:])))
        elif kind == "code":
            found.append(Block(kind, token.content.rstrip(), language=token.info.strip()))
        else:
            found.append(Block(kind, source))
    return found


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph. None ends in code, in a formula, in a link or inside brackets."""
    whole: list[str] = []

    def keep(match: re.Match[str]) -> str:
        whole.append(match[0])
        return "\x00" * len(match[0])

    text = " ".join(paragraph.split())
    masked = _WHOLE.sub(keep, text)
    found, start = [], 0
    for end in _END.finditer(masked):
        found.append(text[start : end.end()].strip())
        start = end.end()
    rest = text[start:].strip()
    return [_closed(sentence) for sentence in [*found, *([rest] if rest else [])]]


def _closed(sentence: str) -> str:
    """Return a sentence without marks of emphasis whose other half stands in another sentence."""
    for mark in ("**", "*"):
        if _WHOLE.sub("", sentence).count(mark) % 2:
            sentence = sentence.replace(mark, "")
    return sentence


def items(markdown: str) -> list[str]:
    """Return the items of a list, each on one line."""
    found = re.split(r"^(?:[*+-]|\d+[.)])\s+", markdown, flags=re.MULTILINE)
    return [" ".join(item.split()) for item in found if item.strip()]


def to_html(markdown: str) -> str:
    """Return Markdown as HTML, its formulas as MathJax reads them."""
    return str(_READER.render(markdown)).strip()


def line_to_html(markdown: str) -> str:
    """Return a line of Markdown as HTML without a paragraph around it."""
    return str(_READER.renderInline(markdown)).strip()


def width(markdown: str) -> int:
    """Return about how many characters wide a text is: links by their words, formulas without their commands."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", markdown)
    text = re.sub(r"\$([^$]*)\$", lambda found: re.sub(r"\\(?:[a-zA-Z]+|.)|[{}^_]", " ", found[1]), text)
    return len(re.sub(r"[*`\\]", "", " ".join(text.split())))
