"""Scores of classification: known answers, and one line where scikit-learn is missing."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError, metrics


def test_three_classes_by_hand() -> None:
    scores = metrics.classification(np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 0]))
    assert scores["accuracy"] == pytest.approx(4 / 6)
    # Class 0: precision 1/2, recall 1/2. Class 1: precision 2/3, recall 1. Class 2: precision 1, recall 1/2.
    assert scores["f1_macro"] == pytest.approx((1 / 2 + 4 / 5 + 2 / 3) / 3)
    # Gorodkin's formula: 4 of 6 right; 2, 2, 2 true and 2, 3, 1 predicted.
    assert scores["matthews"] == pytest.approx((4 * 6 - 2 * 2 - 2 * 3 - 2 * 1) / np.sqrt((36 - 14) * (36 - 12)))


def test_a_constant_answer_has_no_correlation() -> None:
    scores = metrics.classification(np.array([0, 1, 1, 1]), np.array([1, 1, 1, 1]))
    assert (scores["accuracy"], scores["matthews"]) == (0.75, 0.0)
    assert scores["f1_macro"] == pytest.approx((6 / 7) / 2)


def test_scores_are_plain_numbers() -> None:
    """So that they can be written as JSON."""
    assert {type(value) for value in metrics.classification(np.array([0, 1]), np.array([0, 1])).values()} == {float}


def test_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return original(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "sklearn.metrics", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UserError, match=r"pip install 'd2lbert\[eval\]'"):
        metrics.classification(np.array([0]), np.array([0]))


def test_bleu_by_hand() -> None:
    """Of "a b c d x": 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 groups of four; one word is missing."""
    score, signature = metrics.bleu(["a b c d x"], ["a b c d e f"])
    precision = (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert score == pytest.approx(100 * precision * np.exp(1 - 6 / 5), abs=1e-4)
    assert "tok:13a" in signature
    assert "version:" in signature
    assert metrics.bleu(["Ein Hund."], ["Ein Hund."]).score < 100.01


def test_texts_that_do_not_pair_are_one_line() -> None:
    with pytest.raises(UserError, match="2 translations and 1 references: give one reference"):
        metrics.bleu(["a", "b"], ["a"])
    with pytest.raises(UserError, match="0 translations and 0 references"):
        metrics.bleu([], [])


def test_without_sacrebleu_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    with pytest.raises(UserError, match="BLEU needs sacrebleu: run pip install"):
        metrics.bleu(["a"], ["a"])
