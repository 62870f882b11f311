"""Figures to play with, in headless Chromium: the grid of quantization, with the results of its chapter's functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from figure_page import FigurePage, call, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser

NUMBERS = [-0.16, -0.031, 0.0, 0.05, 0.17, 0.4, 1.53, 2.2]
GRID = {"numbers": NUMBERS, "bits": 4}
CHAPTER = "compression/quantization"


@pytest.fixture
def grid(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "quantization", GRID) as page:
        yield page


def test_quantization_is_whole(grid: FigurePage) -> None:
    assert grid.problems() == []


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_the_even_grid_is_the_chapters(grid: FigurePage, bits: int) -> None:
    to_grid = written_in(CHAPTER, "to_grid")["to_grid"]
    numbers = np.random.default_rng(bits).normal(size=50).round(3).tolist()
    whole, step = to_grid(torch.tensor(numbers, dtype=torch.float64), bits)
    found = call(grid, "quantize", numbers, bits, False)
    assert found["whole"] == whole.int().tolist()
    assert found["step"] == pytest.approx(step.item(), rel=1e-12)
    assert found["read"] == pytest.approx((whole * step).tolist(), rel=1e-12)


@pytest.mark.parametrize("shift", [-5.0, -0.5, 0.0, 0.5, 5.0])
def test_the_grid_with_a_zero_point_is_the_chapters(grid: FigurePage, shift: float) -> None:
    input_to_grid = written_in(CHAPTER, "input_to_grid")["input_to_grid"]
    numbers = (np.random.default_rng(0).normal(size=50) + shift).round(3).tolist()
    whole, step, zero = input_to_grid(torch.tensor(numbers, dtype=torch.float64))
    found = call(grid, "quantize", numbers, 8, True)
    assert found["zero"] == int(zero)
    assert found["whole"] == whole.int().tolist()
    assert found["read"] == pytest.approx((step * (whole - zero)).tolist(), rel=1e-9, abs=1e-12)


def test_a_half_is_rounded_to_the_even_number(grid: FigurePage) -> None:
    for number in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.4999, 3.7, -3.2):
        assert call(grid, "roundEven", number) == np.round(number)


def test_bits_and_the_outlier_slide(grid: FigurePage) -> None:
    functions = written_in(CHAPTER, "to_grid", "input_to_grid", "relative_error")
    grid.keys(grid.labelled("bits"), Keys.END)
    exact = torch.tensor(NUMBERS, dtype=torch.float64)
    whole, step, zero = functions["input_to_grid"](exact)
    assert [float(row[1]) for row in grid.rows()] == whole.tolist()
    read = step * (whole - zero)
    error = 100 * functions["relative_error"](read, exact)
    assert grid.numbers()[:3] == pytest.approx([step.item(), zero.item(), error], abs=5e-3)
    grid.choose("grid", "the same on both sides of zero")
    grid.keys(grid.labelled("largest number"), Keys.END)
    exact[-1] *= 10
    whole, step = functions["to_grid"](exact)
    assert [float(row[1]) for row in grid.rows()] == whole.tolist()
    assert [float(row[2]) for row in grid.rows()] == pytest.approx((whole * step).tolist(), abs=6e-4)
    assert grid.numbers()[0] == pytest.approx(step.item(), abs=6e-5)
    assert grid.numbers()[3] == int(((whole == 0) & (exact != 0)).sum()) > 0
