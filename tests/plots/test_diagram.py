"""A diagram draws its boxes, arrows and vectors in the colours of the book, which can be told apart and read upon."""

from __future__ import annotations

import itertools

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb

mpl.use("Agg")

from d2lbert import plots
from d2lbert.plots.diagram import KINDS


def _luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_every_part_changes_the_picture() -> None:
    def drawn(*parts: str) -> bytes:
        canvas = plots.Diagram(6, 3)
        canvas.box(1.5, 1, "query", kind="query")
        if "arrow" in parts:
            canvas.arrow((2.5, 1), (4, 1))
        if "thin" in parts:
            canvas.arrow((2.5, 1), (4, 1), thickness=0)
        if "vector" in parts:
            canvas.vector(4, 2, [0.5, "x"])
        if "note" in parts:
            canvas.note(3, 2.5, "a note")
        return canvas.figure("What to see.", "What is there.").png

    plain = drawn()
    assert plain.startswith(b"\x89PNG")
    assert drawn("thin") == plain
    assert len({plain, drawn("arrow"), drawn("vector"), drawn("note")}) == 4
    assert not plt.get_fignums(), "a figure was left open"


def test_black_text_can_be_read_on_every_kind_and_kinds_differ() -> None:
    assert all((_luminance(colour) + 0.05) / 0.05 >= 7 for colour in KINDS.values())
    for one, other in itertools.combinations(KINDS.values(), 2):
        assert sum(abs(a - b) for a, b in zip(to_rgb(one), to_rgb(other), strict=True)) > 0.1
