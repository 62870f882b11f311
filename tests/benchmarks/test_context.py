"""What the benchmarks about words in context compute, on numbers small enough to know the answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.bert.masked_word import guess, visible
from benchmarks.bert.wic import difference
from benchmarks.elmo.neighbours import kinds, plane, same_kind
from d2lbert.config import BertConfig
from d2lbert.torch.pretraining import BertForPretraining


def test_the_hidden_side_does_not_reach_the_gap() -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=30,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=0.5,
    )
    model = BertForPretraining(config).eval()
    text, left, right = [1, 7, 8, 4, 9, 10, 2], [1, 17, 18, 4, 9, 10, 2], [1, 7, 8, 4, 19, 20, 2]
    before = {side: guess(model, text, 3, side) for side in ("both sides", "left side", "right side")}
    assert torch.equal(before["left side"], guess(model, right, 3, "left side"))
    assert torch.equal(before["right side"], guess(model, left, 3, "right side"))
    for changed, side in ((left, "left side"), (right, "right side"), (left, "both sides"), (right, "both sides")):
        assert not torch.allclose(before[side], guess(model, changed, 3, side))
    assert visible(7, 3, "left side")[0, 0].tolist() == [True, True, True, True, False, False, True]


def test_difference_of_two_models_on_the_same_pairs() -> None:
    first, second = np.array([True] * 60 + [False] * 40), np.array([True] * 50 + [False] * 50)
    found = difference(first, second, seed=0)
    assert found["difference"] == pytest.approx(0.1)
    assert 0 < found["low"] < 0.1 < found["high"] < 0.2
    assert difference(first, first, seed=0) == {"difference": 0.0, "low": 0.0, "high": 0.0}


def test_uses_are_named_by_the_word_before() -> None:
    sentences = ["The play began", "they play", "play on", "new play", "to play a play"]
    assert kinds([text.split() for text in sentences]) == ["noun", "verb", "unclear", "unclear", "verb"]


def test_nearest_use_of_the_same_kind() -> None:
    corpus = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0], [1.0, 0.05]])
    names = ["noun", "noun", "verb", "verb", "unclear"]
    found = same_kind(corpus / np.linalg.norm(corpus, axis=1, keepdims=True), names)
    assert found["share"] == 1
    assert found["uses"] == 4, "the unclear one, nearest to the nouns, is left out"
    assert found["chance"] == pytest.approx(4 / 12)
    mixed = same_kind(
        corpus / np.linalg.norm(corpus, axis=1, keepdims=True), ["noun", "verb", "noun", "verb", "unclear"]
    )
    assert mixed["share"] == 0


def test_plane_keeps_the_directions_that_vary_most() -> None:
    vectors = np.array([[0.0, 5.0, 1.0], [0.0, -5.0, 1.0], [1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]])
    assert np.allclose(np.abs(plane(vectors)), [[5, 0], [5, 0], [0, 1], [0, 1]])
