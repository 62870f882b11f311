"""Figures to play with, in headless Chromium: packing and beam search, with the results of the chapters' functions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from figure_page import FigurePage, call, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser

LENGTHS = [5, 6, 3, 2, 7, 1, 4, 4, 8]
PACKING = {"width": 8, "sets": [{"name": "toy", "lengths": LENGTHS}, {"name": "ones", "lengths": [1] * 10}]}
LANGUAGE = {
    "": {"ein": 0.6, "der": 0.4},
    "ein": {"Hund": 0.4, "Tier": 0.35, "Kind": 0.25},
    "der": {"Hund": 0.9, "Ball": 0.1},
}
LAST = {f"{first} {second}": {"[EOS]": 1.0} for first in ("ein", "der") for second in LANGUAGE[first]}


def logs(language: dict[str, dict[str, float]]) -> dict[str, list[tuple[str, float]]]:
    return {start: [(token, math.log(p)) for token, p in chances.items()] for start, chances in language.items()}


def chain(seed: int) -> dict[str, list[tuple[str, float]]]:
    """A language of four tokens with random probabilities after every beginning of up to three."""
    random, table = np.random.default_rng(seed), {}
    for length in range(4):
        for start in itertools.product("abc", repeat=length):
            table[" ".join(start)] = [*zip([*"abc", "E"], np.log(random.dirichlet([1] * 4)).tolist(), strict=True)]
    return table


BEAM = {
    "widest": 4,
    "models": [
        {"name": "toy", "next": logs(LANGUAGE | LAST), "joint": " ", "end": "[EOS]", "longest": 3},
        {"name": "chain", "next": chain(0), "joint": "+", "end": "E", "longest": 4, "names": {"a": "x"}},
    ],
}


def searched(table: dict[str, list[tuple[str, float]]], k: int, end: str, longest: int, alpha: float) -> Any:
    """The best sentence and its score, by the chapter's own code."""
    search = written_in("transformer/translation", "beam_search")["beam_search"]
    return search(lambda ids: dict(table.get(" ".join(ids), [])), k, end, longest, alpha)


@pytest.fixture
def packing(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "packing", PACKING) as page:
        yield page


@pytest.fixture
def beam(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "beam", BEAM) as page:
        yield page


def test_packing_is_whole(packing: FigurePage) -> None:
    assert packing.problems() == []


def test_beam_is_whole(beam: FigurePage) -> None:
    assert beam.problems() == []


def test_rows_are_the_chapters(packing: FigurePage) -> None:
    first_fit = written_in("pretraining/data", "first_fit")["first_fit"]
    for seed in range(5):
        lengths = np.random.default_rng(seed).integers(1, 21, size=40).tolist()
        assert call(packing, "firstFit", lengths, 20)["rows"] == first_fit(lengths, 20)


def test_texts_are_put_in_one_by_one(packing: FigurePage) -> None:
    first_fit = written_in("pretraining/data", "first_fit")["first_fit"]
    packing.press("From the start")
    for placed in range(1, len(LENGTHS) + 1):
        rows = first_fit(LENGTHS[:placed], 8)
        row = next(number for number, texts in enumerate(rows, start=1) if placed - 1 in texts)
        assert packing.numbers()[:4] == [placed, len(LENGTHS), LENGTHS[placed - 1], row]
        assert packing.numbers()[4] == pytest.approx(100 * (1 - sum(LENGTHS[:placed]) / (8 * len(rows))), abs=0.06)
        if placed < len(LENGTHS):
            packing.press("Next text")
    packing.choose("order", "the longest first")  # all texts are in
    rows = first_fit(sorted(LENGTHS, reverse=True), 8)
    assert packing.rows()[0][1] == str(len(rows))
    packing.choose("texts", "ones")
    packing.press("Back")
    assert packing.numbers()[:2] == [9, 10]


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_the_search_is_the_chapters(beam: FigurePage, k: int, alpha: float) -> None:
    for seed in range(8):
        found = call(beam, "beamSearch", chain(seed), k, "E", 4, alpha)
        score, tokens = searched(chain(seed), k, "E", 4, alpha)
        assert (found["best"] or {"tokens": []})["tokens"] == tokens
        if tokens:
            assert found["best"]["final"] == pytest.approx(score, abs=1e-12)


def test_a_second_beginning_finds_the_dog(beam: FigurePage) -> None:
    assert "“ein Hund [EOS]” with the score −1.427" in beam.said, "log 0.24"
    beam.keys(beam.labelled("beginnings kept"), Keys.ARROW_RIGHT)
    score, tokens = searched(logs(LANGUAGE | LAST), 2, "[EOS]", 3, 0.0)
    assert tokens == ["der", "Hund", "[EOS]"]
    assert f"“der Hund [EOS]” with the score {score:.3f}".replace("-", "−") in beam.said
    beam.keys(beam.labelled("tokens shown"), Keys.HOME, Keys.ARROW_RIGHT)
    assert beam.rows()[0] == ["der Hund", "0.360", "goes on"]
    assert beam.rows()[2] == ["ein Tier", "0.210", "dropped"]


def test_names_stand_for_tokens_and_the_penalty_counts(beam: FigurePage) -> None:
    beam.choose("model", "chain")
    beam.keys(beam.labelled("beginnings kept"), Keys.END)
    beam.keys(beam.labelled("length penalty"), Keys.END)
    score, tokens = searched(chain(0), 4, "E", 4, 2.0)
    text = "+".join("x" if token == "a" else token for token in tokens)
    assert f"“{text}” with the score {score:.3f}".replace("-", "−") in beam.said
