"""Figures for the chapters: one call makes the picture, its caption and its alternative text.

Every function returns a :class:`Figure`. A notebook shows it as an HTML figure whose image has the alternative text. So
the book can be read with a screen reader, and the caption stays with the picture on Colab.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

_DOTS_PER_INCH = 130
_WIDTH_INCHES = 7.0


class Figure:
    """A drawn picture with a caption (what to see in it) and alternative text (what it shows, in words)."""

    def __init__(self, figure: plt.Figure, caption: str, alt: str) -> None:
        plt.close(figure)  # out of pyplot's list, so that a notebook does not show it a second time
        if not caption or not alt:
            raise ValueError("a figure needs a caption and an alternative text")
        self.caption = caption
        self.alt = alt
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight", facecolor="white")
        self.png = stream.getvalue()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        image = base64.b64encode(self.png).decode("ascii")
        markup = (
            '<figure style="margin: 1em 0">'
            f'<img src="data:image/png;base64,{image}" alt="{html.escape(self.alt, quote=True)}" '
            'style="max-width: 100%; height: auto; background: white">'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )
        return {"text/html": markup, "text/plain": f"[Figure: {self.caption}]"}


_VIEW = """
<figure id="NAME" style="margin: 1em 0">
<div><label>layer <select>LAYERS</select></label> <label>head <select>HEADS</select></label></div>
<div style="display: flex; flex-wrap: wrap; gap: 4px; margin: 8px 0">asks: ASKS</div>
<div style="display: flex; flex-wrap: wrap; gap: 4px">answers: ANSWERS</div>
<p aria-live="polite" style="margin: 6px 0"></p>
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

    It lives in the page, with the mouse or the keyboard, and asks no other machine for anything.

    Args:
        tokens: the L tokens.
        weights: (layers, heads, L, L); a row asks, its columns answer.
        caption: what to see in it.
        layer, head, asking: what is shown first; ``asking`` is the position of a token.
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


def _options(count: int, chosen: int) -> str:
    marks = [" selected" if number == chosen else "" for number in range(count)]
    return "".join(f"<option{mark}>{number}</option>" for number, mark in enumerate(marks))


def heat_map(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    caption: str,
    alt: str,
    title: str = "",
    numbers: bool | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Figure:
    """Draw one matrix, such as attention weights or cosines.

    Args:
        values: (R, C).
        rows, columns: the names of the R rows and C columns.
        caption, alt: what to see in the picture, and what it shows, in words.
        title: above the matrix.
        numbers: whether to write each value into its cell; by default up to 144 cells.
        low, high: the ends of the colour scale; by default the smallest and the largest value.
    """
    return heat_maps(
        [values], [rows], [columns], [title], caption=caption, alt=alt, numbers=numbers, low=low, high=high
    )


def heat_maps(
    matrices: Sequence[np.ndarray],
    rows: Sequence[Sequence[str]],
    columns: Sequence[Sequence[str]],
    titles: Sequence[str],
    *,
    caption: str,
    alt: str,
    numbers: bool | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Figure:
    """Draw several matrices in a grid on one colour scale, three side by side, or two where they have many columns.

    Args:
        matrices: each (R, C); the sizes may differ.
        rows, columns: for each matrix, the names of its rows and of its columns.
        titles: one above each matrix.
        caption, alt: what to see in the picture, and what it shows, in words.
        numbers: whether to write each value into its cell; by default for matrices of up to 144 cells.
        low, high: the ends of the colour scale; by default the smallest and the largest value of all matrices.
    """
    arrays = [np.asarray(matrix, dtype=float) for matrix in matrices]
    low = min(float(array.min()) for array in arrays) if low is None else low
    high = max(float(array.max()) for array in arrays) if high is None else high
    widest = 3 if max(len(names) for names in columns) <= 8 else 2
    height = math.ceil(len(arrays) / widest)
    width = math.ceil(len(arrays) / height)  # no wider than needed: four are two by two
    tallest = max(len(names) for names in rows)
    figure, axes = plt.subplots(
        height, width, figsize=(_WIDTH_INCHES, height * min(6.0, 1.3 + 0.35 * tallest)), squeeze=False
    )
    for axis in axes.flat[len(arrays) :]:
        axis.set_axis_off()
    for index, array in enumerate(arrays):
        axis = axes.flat[index]
        image = axis.imshow(array, cmap="viridis", vmin=low, vmax=high, aspect="auto")
        axis.set_xticks(range(len(columns[index])), columns[index], rotation=60, ha="right", rotation_mode="anchor")
        axis.set_yticks(range(len(rows[index])), rows[index])
        axis.set_title(titles[index], fontsize=10)
        if numbers if numbers is not None else array.size <= 144:
            _write_numbers(axis, array, (low + high) / 2)
    figure.tight_layout()
    figure.colorbar(image, ax=list(axes.flat), shrink=0.8)
    return Figure(figure, caption, alt)


def _write_numbers(axis: plt.Axes, array: np.ndarray, middle: float) -> None:
    size = 8 if max(array.shape) <= 8 else 6
    for (row, column), value in np.ndenumerate(array):
        # Viridis is dark below its middle and bright above it.
        colour = "white" if value < middle else "black"
        axis.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=size, color=colour)


def curves(
    series: Mapping[str, Sequence[float]],
    *,
    x_label: str,
    y_label: str,
    caption: str,
    alt: str,
    x: Sequence[float] | None = None,
    log_y: bool = False,
) -> Figure:
    """Draw named curves: losses, accuracies, schedules.

    Args:
        series: name -> the values of its curve.
        x_label, y_label: of the axes.
        caption, alt: what to see in the picture, and what it shows, in words.
        x: where the values are, the same for all curves; by default 1, 2, 3, ...
        log_y: whether the vertical axis is logarithmic.
    """
    figure, axis = plt.subplots(figsize=(_WIDTH_INCHES, 3.6))
    styles = ("-", "--", "-.", ":")
    for index, (name, values) in enumerate(series.items()):
        positions = range(1, len(values) + 1) if x is None else x
        axis.plot(positions, values, styles[index % 4], marker="o" if len(values) <= 12 else None, label=name)
    axis.set_xlabel(x_label)
    axis.set_ylabel(y_label)
    if log_y:
        axis.set_yscale("log")
    if len(series) > 1:
        axis.legend()
    axis.grid(alpha=0.3)
    return Figure(figure, caption, alt)


def bars(
    series: Mapping[str, float], *, y_label: str, caption: str, alt: str, errors: Sequence[float] | None = None
) -> Figure:
    """Draw one bar for each name.

    Args:
        series: name -> height of its bar.
        y_label: of the vertical axis.
        caption, alt: what to see in the picture, and what it shows, in words.
        errors: half the length of each error bar; by default there are none.
    """
    figure, axis = plt.subplots(figsize=(_WIDTH_INCHES, 3.6))
    axis.bar(list(series), list(series.values()), yerr=errors, capsize=4, color="#31688e")
    axis.set_ylabel(y_label)
    if max(len(name) for name in series) > 8 or len(series) > 8:
        axis.tick_params(axis="x", rotation=35)
        plt.setp(axis.get_xticklabels(), ha="right", rotation_mode="anchor")
    axis.grid(axis="y", alpha=0.3)
    return Figure(figure, caption, alt)


def points(
    coordinates: np.ndarray,
    labels: Sequence[str],
    *,
    caption: str,
    alt: str,
    groups: Sequence[str] | None = None,
    arrows: Sequence[tuple[int, int]] = (),
) -> Figure:
    """Draw labelled points in the plane: an embedding map after a projection to two dimensions.

    Args:
        coordinates: (n, 2).
        labels: n texts, one beside each point.
        caption, alt: what to see in the picture, and what it shows, in words.
        groups: the group of each point; each group has its own colour and marker.
        arrows: pairs of indices of points to join by an arrow, from the first to the second.
    """
    figure, axis = plt.subplots(figsize=(_WIDTH_INCHES, 4.8))
    names = list(dict.fromkeys(groups)) if groups else [""]
    for index, name in enumerate(names):
        members = [i for i in range(len(labels)) if not groups or groups[i] == name]
        axis.scatter(
            coordinates[members, 0], coordinates[members, 1], marker="os^Dvx+*"[index % 8], label=name or None, s=30
        )
    for label, (horizontal, vertical) in zip(labels, coordinates, strict=True):
        axis.annotate(label, (horizontal, vertical), xytext=(4, 3), textcoords="offset points", fontsize=8)
    for start, end in arrows:
        axis.annotate("", coordinates[end], coordinates[start], arrowprops={"arrowstyle": "->", "alpha": 0.5})
    if groups:
        axis.legend()
    axis.set_xticks([])
    axis.set_yticks([])
    return Figure(figure, caption, alt)
