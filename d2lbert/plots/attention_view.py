"""Attention weights to play with in the page."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

_VIEW = """
<figure id="NAME" style="margin: 1em 0">
<div><label>block <select>LAYERS</select></label> <label>head <select>HEADS</select></label></div>
<div style="display: flex; flex-wrap: wrap; gap: 4px; margin: 8px 0">asks: ASKS</div>
<div style="display: flex; flex-wrap: wrap; gap: 4px">answers: ANSWERS</div>
<p aria-live="polite" style="margin: 6px 0">TOLD</p>
<figcaption>CAPTION</figcaption>
<script>
(() => {
  const view = document.getElementById("NAME"), weights = WEIGHTS, heads = COUNT;
  const [layer, head] = view.querySelectorAll("select"), asks = [...view.querySelectorAll("button")];
  const answers = [...view.querySelectorAll("span")], told = view.querySelector("p"), length = asks.length;
  let asking = ASKING;
  const show = () => {
    const start = ((+layer.value * heads + +head.value) * length + asking) * length;
    const row = weights.slice(start, start + length);
    answers.forEach((node, column) => { node.style.background = `rgba(49, 104, 142, ${row[column] / 130})`; });
    asks.forEach((button, place) => { button.setAttribute("aria-pressed", place === asking);
      button.style.fontWeight = place === asking ? "bold" : "normal"; });
    const best = row.map((value, column) => [value, column]).sort((a, b) => b[0] - a[0]).slice(0, 4);
    told.textContent = asks[asking].textContent + " looks at "
      + best.map(([value, column]) => `${answers[column].textContent} (${value} %)`).join(", ");
  };
  asks.forEach((button, place) => { for (const event of ["mouseenter", "focus", "click"])
    button.addEventListener(event, () => { asking = place; show(); }); });
  for (const menu of [layer, head]) menu.addEventListener("change", show);
  show();
})();
</script>
</figure>
"""


class AttentionView:
    """Attention weights to play with: choose a layer and a head, point at a word, and see where it looks.

    It lives in the page, with the mouse or the keyboard, and asks no other machine for anything. Where no script runs,
    what is shown first stands there.

    Args:
        tokens: the L tokens.
        weights: (layers, heads, L, L); a row asks, its columns answer.
        caption: what to see in it.
        layer, head, asking: what is shown first, counted from 0, although the page counts layers and heads from 1;
            ``asking`` is the position of a token.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        weights: np.ndarray,
        *,
        caption: str,
        layer: int = 0,
        head: int = 0,
        asking: int = 0,
    ) -> None:
        layers, heads, rows, columns = weights.shape
        if not rows == columns == len(tokens):
            raise ValueError(
                f"{len(tokens)} tokens need weights of {len(tokens)} rows and columns, not {weights.shape}"
            )
        percents = np.rint(100 * weights).astype(int).ravel().tolist()
        words = [html.escape(token) for token in tokens]
        box = "padding: 1px 5px; border: 1px solid #999999; border-radius: 3px"
        parts = {
            "LAYERS": _options(layers, layer),
            "HEADS": _options(heads, head),
            "ASKS": "".join(f'<button type="button" style="{box}">{word}</button>' for word in words),
            "ANSWERS": "".join(f'<span style="{box}">{word}</span>' for word in words),
            "TOLD": f"{words[asking]} looks at {_most(words, weights[layer, head, asking])}",
            "CAPTION": html.escape(caption),
            "WEIGHTS": json.dumps(percents, separators=(",", ":")),
            "COUNT": str(heads),
            "ASKING": str(asking),
            "NAME": "attention-" + hashlib.sha256(repr((words, percents)).encode()).hexdigest()[:12],
        }
        self.caption = caption
        self.html = re.sub("|".join(parts), lambda match: parts[match[0]], _VIEW)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": f"[Attention to play with: {self.caption}]"}


def _most(words: Sequence[str], row: np.ndarray) -> str:
    """Return the four words with the largest weights, as the script tells them."""
    percents = np.rint(100 * row).astype(int).tolist()
    best = sorted(range(len(words)), key=lambda column: -percents[column])[:4]
    return ", ".join(f"{words[column]} ({percents[column]} %)" for column in best)


def _options(count: int, chosen: int) -> str:
    """The script counts from 0, the reader from 1."""
    marks = [" selected" if number == chosen else "" for number in range(count)]
    return "".join(f'<option value="{number}"{mark}>{number + 1}</option>' for number, mark in enumerate(marks))
