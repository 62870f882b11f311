"""Figures to play with, in headless Chromium: masking and sampling, with the package's results for the same draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from figure_page import FigurePage, call, figure_page, uniforms
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from d2lbert.config.gpt import Sampling
from d2lbert.data.pretraining.masking import Masking, MaskingRates
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.torch.generation import next_token_distribution

pytestmark = pytest.mark.browser

TOKENS = [
    *("[CLS]", "the", "dream", "##t", "boats", "of", "the", "river", "[SEP]"),
    *("it", "dream", "##s", "##y", "##d", "on", ",", "boats", "and", "the", "river", "[SEP]"),
]
ORDINARY = [*dict.fromkeys(token for token in TOKENS if token not in SPECIAL_TOKENS)]
MASKING = {
    "tokens": TOKENS,
    "special": [token in SPECIAL_TOKENS for token in TOKENS],
    "pieces": ORDINARY,
    "chosen": 0.15,
    "masked": 0.8,
    "replaced": 0.1,
    "seed": 3,
}
RANDOM = np.random.default_rng(0)
VOCABULARY = [f"w{number}" for number in range(40)]
LOGITS = [RANDOM.normal(scale=2, size=40).round(2).tolist() for _ in range(2)]
LOGITS[0][3] = LOGITS[0][7] = max(LOGITS[0]) + 1  # two that are equally likely
SAMPLING = {
    "vocabulary": VOCABULARY,
    "prompts": [{"text": "the city of", "logits": LOGITS[0]}, {"text": "it was", "logits": LOGITS[1]}],
    "seed": 5,
}


class Drawn:
    """Stands for NumPy's generator, and draws what the browser drew."""

    def __init__(self, draws: Iterator[float]) -> None:
        self._draws = draws

    def random(self, size: int, dtype: type = np.float64) -> np.ndarray:
        return np.array(list(islice(self._draws, size)))

    def integers(self, high: int, size: int) -> np.ndarray:
        return (np.array(list(islice(self._draws, size))) * high).astype(int)


def masked(rates: MaskingRates, draws: Iterator[float]) -> tuple[list[str], list[int]]:
    """What the package shows, and the places that it asks for."""
    tokenizer = WordPiece([*SPECIAL_TOKENS, *ORDINARY])
    ids = np.array([tokenizer.token_to_id[token] for token in TOKENS])
    found = Masking(tokenizer, rates)(ids, Drawn(draws))
    return [tokenizer.vocab[number] for number in found.ids], found.positions.tolist()


@pytest.fixture
def masking(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "masking", MASKING) as page:
        yield page


@pytest.fixture
def sampling(driver: webdriver.Chrome, tmp_path: Path) -> Iterator[FigurePage]:
    with figure_page(driver, tmp_path, "sampling", SAMPLING) as page:
        yield page


def shown_tokens(page: FigurePage) -> list[str]:
    return [chip.text for chip in page.all(".chip")][: len(TOKENS)]


def test_masking_is_whole(masking: FigurePage) -> None:
    assert masking.problems() == []


def test_sampling_is_whole(sampling: FigurePage) -> None:
    assert sampling.problems() == []


@pytest.mark.parametrize("whole_words", [False, True])
def test_masks_are_the_packages_for_the_same_draws(masking: FigurePage, whole_words: bool) -> None:
    rates = {"chosen": 0.4, "masked": 0.5, "replaced": 0.3, "wholeWords": whole_words}
    same = MaskingRates(0.4, 0.5, 0.3, whole_words)
    asked = set()
    for seed in range(20):
        found = call(masking, "maskTokens", TOKENS, MASKING["special"], ORDINARY, rates, {"seed": seed})
        shown, places = masked(same, uniforms(seed))
        assert found["shown"] == shown
        assert [place for place, kind in enumerate(found["kinds"]) if kind] == places
        asked |= {kind for kind in found["kinds"] if kind}
    assert asked == {"mask", "other", "same"}


def test_again_shows_the_next_draw_and_counts(masking: FigurePage) -> None:
    draws = uniforms(3)
    total = 0
    for _ in range(5):
        shown, places = masked(MaskingRates(), draws)
        total += len(places)
        assert shown_tokens(masking) == shown
        ordinary = MASKING["special"].count(False)
        assert masking.said.startswith(f"Asked for {len(places)} of {ordinary} tokens")
        assert sum(int(row[1]) for row in masking.rows()) == total
        masking.press("Again")
    masking.press("100 times")
    shares = [float(row[2]) for row in masking.rows()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.08)
    assert sum(shares) == pytest.approx(1, abs=2e-3)


def test_whole_words_are_hidden_together(masking: FigurePage) -> None:
    masking.keys(masking.labelled("whole words"), Keys.SPACE)
    masking.keys(masking.labelled("chosen"), Keys.END)
    draws = uniforms(3)
    masked(MaskingRates(), draws)  # the page draws once when it opens,
    masked(MaskingRates(whole_words=True), draws)  # once for the tick, and once for each step of the slider
    shown, places = masked(MaskingRates(0.5, whole_words=True), draws)
    assert shown_tokens(masking) == shown
    assert {10, 11, 12, 13} <= set(places) or not {10, 11, 12, 13} & set(places)


@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1, 0, 1), (0.5, 0, 1), (2, 5, 1), (1, 0, 0.6), (0.7, 10, 0.9), (0, 0, 1), (1, 1, 0.05), (1, 0, 0.05)],
)
def test_what_is_drawn_from_is_the_packages(sampling: FigurePage, temperature: float, top_k: int, top_p: float) -> None:
    way = {"temperature": temperature, "topK": top_k, "topP": top_p}
    for logits in LOGITS:
        found = call(sampling, "nextToken", logits, way)
        scores = torch.tensor([logits], dtype=torch.float64)
        right = next_token_distribution(scores, Sampling(temperature, top_k, top_p))[0]
        ours = torch.zeros(40, dtype=torch.float64)
        ours[found["order"]] = torch.tensor(found["after"], dtype=torch.float64)
        assert ours.tolist() == pytest.approx(right.tolist(), abs=1e-9)


def test_sliders_cut_and_draws_are_counted(sampling: FigurePage) -> None:
    sampling.keys(sampling.labelled("top-k"), Keys.ARROW_RIGHT * 6)
    sampling.keys(sampling.labelled("temperature"), Keys.ARROW_LEFT * 5)
    scores = torch.tensor([LOGITS[0]], dtype=torch.float64)
    right = next_token_distribution(scores, Sampling(0.5, 6))[0]
    rows = sampling.rows()
    for row in rows[:6]:
        assert float(row[2]) == pytest.approx(right[VOCABULARY.index(row[0])].item(), abs=6e-4)
    assert [row[2] for row in rows[6:12]] == ["cut"] * 6
    assert sampling.said.startswith("6 of 40 pieces are left")
    sampling.press("Draw 100")
    places, draws = right.sort(descending=True, stable=True).values.cumsum(0), uniforms(5)
    counted = Counter(int((places <= next(draws)).sum()) for _ in range(100))
    assert [int(row[3] or 0) for row in sampling.rows()[:6]] == [counted[place] for place in range(6)]
    sampling.press("Draw one")
    assert sum(int(row[3] or 0) for row in sampling.rows()) == 101
    assert "Drawn: w" in sampling.said


def test_a_menu_changes_the_text_before(sampling: FigurePage) -> None:
    sampling.choose("after the text", "it was")
    best = int(np.argmax(LOGITS[1]))
    assert sampling.rows()[0][0] == VOCABULARY[best]
    sampling.keys(sampling.labelled("temperature"), Keys.HOME)
    assert sampling.said.startswith("1 of 40 pieces are left")
