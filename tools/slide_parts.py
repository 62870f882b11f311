"""The parts of a slide: text, figures, formulas, code and its output, tables, lists; and how high each will be.

Heights are in the pixels of a slide of 1280 by 720, which ``site/extra/slides/slides.css`` lays out. They are somewhat
larger than what Chromium draws, since fonts differ; ``tests/system/site/test_slides.py`` measures every slide.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import zip_longest

import nbformat
from slide_text import blocks, width

BODY = 560  # pixels below the title and above the footer
_FIGURE = 300  # the least that a picture is given; it takes what is left
_PLAY = 480  # a figure to play with needs a slide for itself
_PICTURE = re.compile(r'<img src="(?P<source>data:image/png;base64,[^"]+)" alt="(?P<alt>[^"]*)"')
_CAPTION = re.compile(r"<figcaption>(.*?)</figcaption>", flags=re.DOTALL)
_WIDEST_CODE = 92  # characters
_TABLE_ROOM = 105  # characters, with what is between columns


@dataclass(frozen=True)
class Part:
    """A part of a slide.

    Fields:
        kind: lead, finding, text, figure, play, formula, code, output, table, list.
        text: its source: Markdown, code, or the HTML of a figure.
        height: pixels that it needs.
        language: of code.
        caption, alt: of a figure.
    """

    kind: str
    text: str
    height: int
    language: str = ""
    caption: str = ""
    alt: str = ""


def prose_part(text: str, kind: str) -> Part:
    """Return a sentence: a lead above what is shown, a finding below it, or a text that stands alone."""
    return Part(kind, text, _lines(width(text), 84) * 38 + 14)


def list_part(found: list[str]) -> Part:
    """Return a list of texts."""
    height = sum(_lines(width(item), 84) * 36 + 10 for item in found)
    return Part("list", "\n".join(f"* {item}" for item in found), height)


def formula_part(text: str) -> Part:
    """Return a formula of its own line; each of its lines counts as a high one."""
    rows = 1 + text.count(r"\\")
    return Part("formula", text, 60 + 85 * rows)


def code_part(source: str, language: str) -> Part:
    """Return code; what is too wide for a slide is given no slide's height."""
    source = re.sub(r"\n\n\n+", "\n\n", source.strip("\n"))  # a slide has no lines to spare
    lines = source.splitlines()
    too_wide = max(map(len, lines), default=0) > _WIDEST_CODE
    return Part("code", source, 2 * BODY if too_wide else 26 * len(lines) + 40, language=language)


def table_part(markdown: str) -> Part:
    """Return a table; where its columns are wider than a slide together, its cells take several lines."""
    rows = [row for row in markdown.strip().splitlines() if not re.fullmatch(r"[\s|:-]+", row)]
    cells = [[width(cell) for cell in row.strip().strip("|").split("|")] for row in rows]
    columns = [max(column) + 3 for column in zip_longest(*cells, fillvalue=0)]
    narrow = max(1.0, sum(columns) / _TABLE_ROOM)
    words = 0 if narrow == 1 else 1  # a line breaks before a word
    height = 0
    for row in cells:
        lines = max(math.ceil(narrow * cell / column) for cell, column in zip(row, columns, strict=False))
        height += 9 + 24 * (max(1, lines) + words)
    return Part("table", markdown, 20 + height if narrow < 4 else 2 * BODY)


def output_parts(outputs: list[nbformat.NotebookNode]) -> list[Part]:
    """Return what a cell showed: figures, tables and printed lines."""
    found = []
    printed = ""
    for output in outputs:
        data = output.get("data", {})
        if output.output_type == "stream":
            printed += output.text if output.name == "stdout" else ""
        elif "text/html" in data:
            found.append(_figure(data["text/html"]))
        elif "text/markdown" in data:
            found += _markdown(data["text/markdown"])
        elif output.output_type == "execute_result" and "text/plain" in data:
            printed += data["text/plain"]
    return [*([_printed(printed)] if printed.strip() else []), *found]


def _printed(text: str) -> Part:
    lines = text.strip("\n").splitlines()
    too_wide = max(map(len, lines)) > 105
    return Part("output", text.strip("\n"), 2 * BODY if too_wide else 24 * len(lines) + 26)


def _figure(markup: str) -> Part:
    caption = _CAPTION.search(markup)
    words = " ".join(caption[1].split()) if caption else ""
    picture = _PICTURE.search(markup)
    if picture:
        height = _FIGURE + _lines(len(words), 115) * 26
        return Part("figure", picture["source"], height, caption=words, alt=picture["alt"])
    return Part("play", markup, _PLAY, caption=words)


def _markdown(text: str) -> list[Part]:
    found = []
    for block in blocks(text):
        if block.kind == "table":
            found.append(table_part(block.text))
        elif block.kind == "code":
            found.append(code_part(block.text, block.language or "text"))
    return found


def _lines(characters: int, room: int) -> int:
    return max(1, math.ceil(characters / room))
