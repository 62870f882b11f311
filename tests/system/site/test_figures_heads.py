"""The figure of all heads, in headless Chromium: MiniLM's weights and averages as the chapter computes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from figure_page import FigurePage, call, figure_page, written_in
from selenium import webdriver
from selenium.webdriver.common.keys import Keys

from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.zoo import locate

pytestmark = pytest.mark.browser

TEXTS = ("The old man saw a small box", "The bank of the river was flooded.")
NAMES = ["the previous token", "the next token", "the token itself", "[CLS]", "[SEP]"]


@pytest.fixture(scope="module")
def chapter() -> dict[str, Any]:
    """The functions of the cell in the chapter, with MiniLM."""
    functions = written_in("bert/bert", "all_heads", "habits")
    scope = functions["all_heads"].__globals__
    scope["minilm_tokenizer"] = WordPiece.from_pretrained(locate("minilm"))
    scope["minilm"] = BertModel.from_pretrained("minilm").eval()
    return functions


@pytest.fixture(scope="module")
def views(chapter: dict[str, Any]) -> list[tuple[list[str], torch.Tensor]]:
    """Tokens and weights (N, H, L, L) in percent of each text."""
    return [chapter["all_heads"](text) for text in TEXTS]


@pytest.fixture
def heads(
    driver: webdriver.Chrome, tmp_path: Path, views: list[tuple[list[str], torch.Tensor]]
) -> Iterator[FigurePage]:
    sentences = [{"tokens": tokens, "weights": weights.flatten().numpy()} for tokens, weights in views]
    data = {"sentences": sentences, "layers": 6, "heads": 12, "first": [1, 3, 5]}
    with figure_page(driver, tmp_path, "heads", data) as page:
        yield page


def looks(tokens: list[str], row: torch.Tensor) -> list[list[str]]:
    """The five tokens that a token looks at most, with their places and weights, as the table shows them."""
    order = np.argsort(-row.numpy(), kind="stable")[:5]
    return [[f"{tokens[place]} ({place + 1})", f"{row[place]} %"] for place in order.tolist()]


def test_heads_are_whole(heads: FigurePage) -> None:
    assert heads.problems() == []


def test_percents_are_those_of_the_model(views: list[tuple[list[str], torch.Tensor]]) -> None:
    tokens, weights = views[0]
    assert weights.shape == (6, 12, len(tokens), len(tokens))
    assert tokens[0] == "[CLS]"
    assert (weights.sum(-1) - 100).abs().max() <= len(tokens) / 2, "only rounding is lost"


def test_keys_choose_the_head_and_the_token(heads: FigurePage, views: list[tuple[list[str], torch.Tensor]]) -> None:
    tokens, weights = views[0]
    assert [row[:2] for row in heads.rows()] == looks(tokens, weights[1, 3, 5])
    assert heads.said.startswith(f"In block 2, head 4, “{tokens[5]}” looks at ")
    grid, asks = heads.all("[role=radiogroup]")
    chosen = heads.one("[role=radiogroup].grid [aria-checked=true]")
    assert chosen.accessible_name == "block 2, head 4"
    heads.keys(chosen, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)  # to the same place of the next block, then to its right
    active = heads.driver.execute_script("return arguments[0].getRootNode().activeElement", grid)
    assert active.accessible_name == "block 3, head 5"
    assert [row[:2] for row in heads.rows()] == looks(tokens, weights[2, 4, 5])
    heads.keys(asks.find_element("css selector", "[tabindex='0']"), Keys.HOME, Keys.ARROW_RIGHT)
    assert [row[:2] for row in heads.rows()] == looks(tokens, weights[2, 4, 1])
    heads.keys(active, Keys.END)
    assert [row[:2] for row in heads.rows()] == looks(tokens, weights[5, 11, 1])
    assert f"“{tokens[1]}” looks at" in heads.said


def test_heads_are_numbered_by_their_habit(
    heads: FigurePage, views: list[tuple[list[str], torch.Tensor]], chapter: dict[str, Any]
) -> None:
    for name in NAMES:
        heads.choose("number the heads", name)
        shares = chapter["habits"](views[0][1])[name].flatten()
        order = np.argsort(-shares.numpy(), kind="stable")[:5].tolist()
        rows = heads.rows(1)
        assert [row[0] for row in rows] == [
            f"{rank}: block {head // 12 + 1}, head {head % 12 + 1}" for rank, head in enumerate(order, start=1)
        ]
        assert [float(row[1].removesuffix(" %")) for row in rows] == pytest.approx(shares[order].tolist(), abs=0.051)
        marked = {head.text: place for place, head in enumerate(heads.all(".head")) if head.text}
        assert marked == {str(rank): head for rank, head in enumerate(order, start=1)}


def test_another_sentence_has_other_weights(heads: FigurePage, views: list[tuple[list[str], torch.Tensor]]) -> None:
    tokens, weights = views[1]
    heads.choose("sentence", " ".join(tokens[1:-1]))
    assert [row[:2] for row in heads.rows()] == looks(tokens, weights[1, 3, 5])
    assert len(heads.all(".chip")) == len(tokens)


def test_habits_are_the_chapters(
    heads: FigurePage, views: list[tuple[list[str], torch.Tensor]], chapter: dict[str, Any]
) -> None:
    weights = views[1][1]
    right = chapter["habits"](weights)
    for layer, head in ((0, 2), (3, 11), (5, 0)):
        found = call(heads, "habits", weights[layer, head].tolist())
        assert found == pytest.approx([right[name][layer, head].item() for name in NAMES])
