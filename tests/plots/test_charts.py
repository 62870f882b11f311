"""Charts draw what they are given."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

mpl.use("Agg")

from d2lbert import plots

TEXTS = {"caption": "What to see here.", "alt": "A grid of numbers."}


def test_every_kind_is_drawn() -> None:
    figures = [
        plots.heat_maps([np.eye(9)] * 3, [list("abcdefghi")] * 3, [list("abcdefghi")] * 3, ["1", "2", "3"], **TEXTS),
        plots.curves({"a": [1.0, 2.0], "b": [2.0, 1.0]}, x_label="x", y_label="y", log_y=True, **TEXTS),
        plots.bars({"long name of a bar": 1.0, "b": 2.0}, y_label="y", errors=[0.1, 0.2], **TEXTS),
        plots.points(np.eye(3)[:, :2], ["a", "b", "c"], groups=["x", "y", "x"], arrows=[(0, 1)], **TEXTS),
    ]
    assert all(figure.png.startswith(b"\x89PNG") and len(figure.png) > 5000 for figure in figures)
    assert len({figure.png for figure in figures}) == 4
    assert not plt.get_fignums(), "a figure was left open"


def test_counted_positions_have_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[plt.Figure] = []
    monkeypatch.setattr("d2lbert.plots.charts.Figure", lambda figure, *texts: drawn.append(figure))
    for values, x in (([3.0], None), ([3.0, 2.0, 1.0], None), ([3.0, 2.0, 1.0], [0.5, 1.0, 1.5])):
        plots.curves({"loss": values}, x_label="epoch", y_label="loss", x=x, **TEXTS)
    *counted, given = (figure.axes[0].get_xticks() for figure in drawn)
    plt.close("all")
    assert all(tick == round(tick) for ticks in counted for tick in ticks)
    assert any(tick != round(tick) for tick in given)


def test_legend_of_points_hides_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[plt.Figure] = []
    monkeypatch.setattr("d2lbert.plots.charts.Figure", lambda figure, *texts: drawn.append(figure))
    plots.points(np.eye(3)[:, :2], ["a", "b", "c"], groups=["x", "y", "z"], **TEXTS)
    drawn[0].canvas.draw()
    axis = drawn[0].axes[0]
    legend = axis.get_legend()
    plt.close(drawn[0])
    assert legend is not None
    assert legend.get_window_extent().y1 <= axis.get_window_extent().y0
