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
