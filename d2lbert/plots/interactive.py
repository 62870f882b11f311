"""A figure to play with: data and a table from the notebook, brought to life by a small script of the site."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

NOTE = "On the site of the book you can play with this figure. Here, a table shows some of its numbers."
MOST_BYTES = 300_000  # of data; a page of the book is read on phones, too
_NAME = re.compile(r"[a-z]+(-[a-z]+)*")


class Interactive:
    """A figure that a reader changes with mouse, finger or keyboard.

    The output holds the element ``<d2l-NAME>`` with the data as JSON and a table. On the site, the script
    ``site/extra/figures/NAME.js`` draws the figure in place of the table. Everywhere else (Jupyter, Colab, a browser
    without JavaScript) the table is what is shown, so it should tell what the figure shows first.

    Args:
        name: of the element, in small letters: ``"attention"``.
        data: what the script draws: numbers, texts, lists, dictionaries, and NumPy's arrays and numbers.
        caption: what to see in it.
        table: rows with the same keys; floats are shown with ``digits`` decimals.
        digits: of the table.

    Raises:
        ValueError: no caption, no table or a name that is none; data with a NaN or an infinity, or too much of it.
    """

    def __init__(
        self, name: str, data: dict[str, Any], *, caption: str, table: Sequence[dict[str, Any]], digits: int = 3
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a figure: use small letters, with hyphens between words")
        if not caption or not table:
            raise ValueError("a figure to play with needs a caption and a table")
        self.caption = caption
        # No "<" in the data, so that nothing in it can end the script element.
        self.json = json.dumps(data, default=_plain, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        if len(self.json) > MOST_BYTES:
            raise ValueError(f"{len(self.json):,} bytes of data, not at most {MOST_BYTES:,}: round it, or show less")
        self.html = (
            f'<figure style="margin: 1em 0"><d2l-{name}>'
            f'<script type="application/json">{self.json}</script><p>{NOTE}</p>{_table(table, digits)}</d2l-{name}>'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": f"[Figure to play with: {self.caption}]"}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON: make lists and numbers of it")


def _table(rows: Sequence[dict[str, Any]], digits: int) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in rows[0])
    body = "".join("<tr>" + "".join(_cell(value, digits) for value in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any, digits: int) -> str:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    text = f"{value:.{digits}f}" if isinstance(value, float | np.floating) else str(value)
    return f'<td style="text-align: right">{text}</td>' if number else f"<td>{html.escape(text)}</td>"
