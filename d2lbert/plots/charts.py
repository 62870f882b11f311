"""Heat maps, curves, bars and points: one call makes the picture, its caption and its alternative text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from d2lbert.plots.figure import Figure

_WIDTH_INCHES = 7.0


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
    if x is None:
        # There is no epoch 1.5.
        axis.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
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
    if groups:  # beneath the points, where it hides none of them
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=4)
    axis.set_xticks([])
    axis.set_yticks([])
    return Figure(figure, caption, alt)
