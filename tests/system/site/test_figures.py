"""Figures to play with, in headless Chromium: driven by keyboard they show Python's numbers; else the table stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from figure_page import FigurePage, call, figure_page
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from d2lbert.plots.interactive import NOTE

pytestmark = pytest.mark.browser

KEYS = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]
VALUES = [[0.0, 0.0], [4.0, 0.0], [2.0, 3.0]]
FALLBACK = [NOTE, "first second", "1 two"]
ATTENTION = {"keys": KEYS, "values": VALUES, "query": [2.0, 1.0], "temperature": 1.0}


def attended(query: list[float], temperature: float) -> tuple[list[float], list[float]]:
    """Weights and context, as the chapter computes them."""
    scores = torch.tensor(KEYS, dtype=torch.float64) @ torch.tensor(query, dtype=torch.float64)
    weights = (scores / temperature).softmax(-1)
    return weights.tolist(), (weights @ torch.tensor(VALUES, dtype=torch.float64)).tolist()


@pytest.fixture
def attention(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "attention", ATTENTION) as page:
        yield page


def test_without_a_script_the_table_is_read(driver: webdriver.Chrome, tmp_path: Path) -> None:
    with figure_page(driver, tmp_path, "attention", ATTENTION, script=False) as page:
        assert page.host.text.split("\n") == FALLBACK


def test_where_drawing_fails_the_table_stays(driver: webdriver.Chrome, tmp_path: Path) -> None:
    with figure_page(driver, tmp_path, "attention", {"keys": 3}) as page:
        assert page.host.text.split("\n") == FALLBACK
        assert any("TypeError" in entry["message"] for entry in driver.get_log("browser"))


def test_attention_is_whole(attention: FigurePage) -> None:
    assert attention.problems() == []


def test_the_query_moves_by_arrow_keys(attention: FigurePage) -> None:
    weights, context = attended([2.0, 1.0], 1.0)
    assert attention.numbers() == pytest.approx([2, 1, *weights, *context], abs=5e-4)
    query = attention.one("[role=slider]")
    attention.keys(query, Keys.ARROW_LEFT * 5, Keys.ARROW_UP * 3)
    weights, context = attended([1.5, 1.3], 1.0)
    assert attention.numbers() == pytest.approx([1.5, 1.3, *weights, *context], abs=5e-4)
    assert query.get_attribute("aria-valuetext") == "1.50 to the right, 1.30 up"
    assert [float(row[2]) for row in attention.rows()] == pytest.approx(weights, abs=5e-4)
    attention.keys(query, Keys.ARROW_RIGHT * 99)
    assert attention.numbers()[0] == pytest.approx(2.6), "it stays inside the picture"


def test_the_temperature_slides(attention: FigurePage) -> None:
    slider = attention.labelled("temperature")
    attention.keys(slider, Keys.HOME)
    weights, context = attended([2.0, 1.0], 10**-1.3)
    assert attention.numbers() == pytest.approx([2, 1, *weights, *context], abs=5e-4)
    assert slider.get_attribute("aria-valuetext") == "0.05"
    attention.keys(slider, Keys.END)
    assert attention.numbers()[2:5] == pytest.approx(attended([2.0, 1.0], 100.0)[0], abs=5e-4)


def test_the_query_is_dragged(attention: FigurePage) -> None:
    query = attention.one("[role=slider]")
    ActionChains(attention.driver).drag_and_drop_by_offset(query, -80, 0).perform()
    across, up, *rest = attention.numbers()
    assert across < 1.5
    assert up == pytest.approx(1, abs=0.05)
    assert rest == pytest.approx([*attended([across, up], 1.0)[0], *attended([across, up], 1.0)[1]], abs=0.01)


def test_a_softmax_of_large_scores_is_pythons(attention: FigurePage) -> None:
    scores = [1000.0, 999.0, -1000.0]
    right = (torch.tensor(scores, dtype=torch.float64) / 0.7).softmax(-1).tolist()
    assert call(attention, "softmax", scores, 0.7) == pytest.approx(right, abs=1e-12)


def test_it_is_light_and_dark(attention: FigurePage) -> None:
    colours = set()
    for theme in ("light", "dark"):
        attention.driver.get(f"{attention.address}/{theme}.html")
        told = attention.host.shadow_root.find_element(By.CSS_SELECTOR, "[role=status]")
        colours.add(told.value_of_css_property("color"))
    assert len(colours) == 2, "text has the colour of the page"
