"""Boxes, arrows and vectors on a plain canvas: how a model is built, in the same colours through the whole book."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from d2lbert.plots.figure import Figure

# Light tints of the palette of Okabe and Ito, told apart without colour vision; black text reads on each of them.
# One kind of thing has one colour in every chapter.
KINDS = {
    "plain": "#ffffff",
    "text": "#f0f0f0",
    "query": "#a9d6f5",
    "key": "#ffd78a",
    "value": "#a8e0c8",
    "hidden": "#d9d2ee",
    "weight": "#f7b7a3",
    "output": "#f3c6de",
}
_INCHES = 0.62  # for one unit of the canvas
_FONT = 11.0


class Diagram:
    """A canvas on which a chapter draws a mechanism; x grows to the right, y grows upwards, both in boxes.

    Args:
        width, height: of the canvas. Up to 12 wide, the letters stay readable on a phone.
    """

    def __init__(self, width: float, height: float) -> None:
        self._figure, self._axis = plt.subplots(figsize=(width * _INCHES, height * _INCHES))
        self._axis.set_xlim(0, width)
        self._axis.set_ylim(0, height)
        self._axis.set_aspect("equal")
        self._axis.axis("off")

    def box(
        self, x: float, y: float, text: str, *, kind: str = "plain", width: float = 2.0, height: float = 0.8
    ) -> None:
        """Draw a box around the point (x, y), of one kind of ``KINDS``, with text in it."""
        corner = (x - width / 2, y - height / 2)
        style = "round,pad=0,rounding_size=0.12"
        self._axis.add_patch(
            FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=KINDS[kind], edgecolor="#333333")
        )
        self._axis.text(x, y, text, ha="center", va="center", fontsize=_FONT)

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], *, bend: float = 0.0, thickness: float = 1.2
    ) -> None:
        """Draw an arrow from one point to another; ``bend`` curves it, a thickness of 0 leaves it out."""
        if thickness <= 0:
            return
        style = f"arc3,rad={bend}"
        self._axis.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-|>",
                connectionstyle=style,
                mutation_scale=11,
                linewidth=thickness,
                color="#333333",
                shrinkA=0,
                shrinkB=0,
            )
        )

    def vector(
        self, x: float, y: float, values: Sequence[float | str], *, kind: str = "hidden", upright: bool = False
    ) -> None:
        """Draw a vector as a row (or a column) of cells around the point (x, y), with its numbers in them."""
        for number, value in enumerate(values):
            step = number - (len(values) - 1) / 2
            across, up = (0.0, -0.6 * step) if upright else (0.9 * step, 0.0)
            corner = (x + across - 0.45, y + up - 0.3)
            self._axis.add_patch(Rectangle(corner, 0.9, 0.6, facecolor=KINDS[kind], edgecolor="#333333"))
            text = value if isinstance(value, str) else f"{value:.2f}"
            self._axis.text(x + across, y + up, text, ha="center", va="center", fontsize=_FONT - 1)

    def note(self, x: float, y: float, text: str, *, align: str = "center", bold: bool = False) -> None:
        """Write text without a box; ``align`` is "left", "center" or "right" of the point."""
        weight = "bold" if bold else "normal"
        self._axis.text(x, y, text, ha=align, va="center", fontsize=_FONT, fontweight=weight)

    def figure(self, caption: str, alt: str) -> Figure:
        """Return the drawing with its caption (what to see in it) and alternative text (what it shows, in words)."""
        return Figure(self._figure, caption, alt)
