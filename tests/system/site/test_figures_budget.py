"""Figures to play with, in headless Chromium: memory, time and price of a run, by the formulas of the chapter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from figure_page import FigurePage, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from d2lbert.config import preset
from d2lbert.torch.bert import BertModel
from d2lbert.torch.encoder import count_parameters

pytestmark = pytest.mark.browser

LENGTHS = (128, 512)


def counted(name: str) -> dict[str, object]:
    """What the chapter counts for a model, for one row of each length."""
    kept = written_in("pretraining/scaling", "kept_for_backward")["kept_for_backward"]
    with torch.device("meta"):
        model = BertModel(preset(name)).train()
    block = 4 * 12 * preset(name).hidden_size ** 2
    parameters = count_parameters(model)
    rows = [kept(model, 1, length) for length in LENGTHS]
    return {"name": name, "parameters": parameters, "block": block, "activations": rows}


LARGE, TINY = counted("large"), counted("tiny")
PLAN = {
    "rows": 32,
    "memory": 24e9,
    "workers": 1,
    "sharded": False,
    "tokens": 1e11,
    "peak": 989e12,
    "utilisation": 0.4,
    "price": 2.5,
}


@pytest.fixture
def budget(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    data = {"models": [LARGE, TINY], "lengths": LENGTHS, "plan": PLAN}
    with figure_page(driver, tmp_path, "budget", data) as page:
        yield page


def amounts(page: FigurePage) -> list[float]:
    """The first number of each row: gigabytes three times, operations, hours (or another unit), dollars."""
    return [float(row[1].split()[0].replace(",", "")) for row in page.rows()]


def test_budget_is_whole(budget: FigurePage) -> None:
    assert budget.problems() == []


def test_one_rows_activations_count_as_often_as_there_are_rows() -> None:
    kept = written_in("pretraining/scaling", "kept_for_backward")["kept_for_backward"]
    with torch.device("meta"):
        model = BertModel(preset("small")).train()
    assert kept(model, 32, 128) == pytest.approx(32 * kept(model, 1, 128), rel=0.01)


def test_the_plan_of_the_chapter_fits_at_128_tokens_only(budget: FigurePage) -> None:
    state, activations = 16 * LARGE["parameters"] / 1e9, [32 * kept / 1e9 for kept in LARGE["activations"]]
    hours = 6 * LARGE["parameters"] * 1e11 / (0.4 * 989e12) / 3600
    assert amounts(budget)[:3] == pytest.approx([state, activations[0], state + activations[0]], rel=0.006)
    assert amounts(budget)[4:] == pytest.approx([hours / 24, hours * 2.5], rel=0.006)
    assert budget.rows()[4][1].endswith("days")
    budget.choose("tokens in a row", "512")
    assert amounts(budget)[:3] == pytest.approx([state, activations[1], state + activations[1]], rel=0.006)
    assert budget.said.startswith("The plan does not fit")
    budget.keys(budget.labelled("rows at a worker"), Keys.ARROW_LEFT * 2)
    assert amounts(budget)[1] == pytest.approx(activations[1] / 4, rel=0.006)


def test_sharding_divides_the_state_and_workers_the_time(budget: FigurePage) -> None:
    state, hours, dollars = amounts(budget)[0], amounts(budget)[4] * 24, amounts(budget)[5]
    budget.keys(budget.labelled("workers"), Keys.ARROW_RIGHT * 3)
    assert amounts(budget)[0] == state
    assert amounts(budget)[4:] == pytest.approx([hours / 8, dollars], rel=0.02)
    budget.keys(budget.labelled("all sharded"), Keys.SPACE)
    right = (16 * LARGE["parameters"] / 8 + LARGE["block"]) / 1e9
    assert amounts(budget)[0] == pytest.approx(right, rel=0.006)
    budget.choose("model", "tiny")
    assert amounts(budget)[0] == pytest.approx((16 * TINY["parameters"] / 8 + TINY["block"]) / 1e9, abs=0.005)


def test_price_peak_and_tokens_slide(budget: FigurePage) -> None:
    budget.keys(budget.labelled("an hour"), Keys.END)
    budget.keys(budget.labelled("peak"), Keys.END)
    budget.keys(budget.labelled("tokens to read"), Keys.ARROW_LEFT * 10)
    budget.keys(budget.labelled("utilisation"), Keys.ARROW_RIGHT * 10)
    hours = 6 * LARGE["parameters"] * 1e10 / (0.5 * 2000e12) / 3600
    assert budget.rows()[4][1].endswith("hours")
    assert amounts(budget)[4:] == pytest.approx([hours, hours * 10], rel=0.006)
