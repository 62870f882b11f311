"""Scores of classification: known answers, and one line where scikit-learn is missing."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Sequence
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


def test_scores_of_numbers_by_hand() -> None:
    scores = metrics.regression(np.array([1.0, 2.0, 4.0]), np.array([0.5, 3.0, 4.5]))
    assert scores["spearman"] == pytest.approx(1.0)
    assert scores["pearson"] == pytest.approx(np.corrcoef([1.0, 2.0, 4.0], [0.5, 3.0, 4.5])[0, 1])
    assert scores["mean_squared_error"] == pytest.approx((0.25 + 1 + 0.25) / 3)


@pytest.mark.parametrize("swapped", [False, True])
def test_constant_numbers_have_no_correlation(swapped: bool) -> None:
    pair = (np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0]))
    scores = metrics.regression(*(reversed(pair) if swapped else pair))
    assert (scores["spearman"], scores["pearson"]) == (0.0, 0.0)


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


@pytest.mark.parametrize(
    ("answer", "golds", "exact", "f1"),
    [
        ("the Eiffel Tower", ["Eiffel tower"], 1, 1),  # article, case
        ("Eiffel  Tower.\n", ["eiffel tower"], 1, 1),  # white space, punctuation
        ("U.S.", ["US"], 1, 1),  # punctuation leaves no space behind
        ("well-known", ["well known"], 0, 0),  # so this is one word, and those are two
        ("a theme", ["theme"], 1, 1),  # "the" at the beginning of a word stays
        ("an a the", ["the"], 1, 1),  # nothing is left of either
        ("Theatre", ["atre"], 0, 0),
        ("1,000", ["1000"], 1, 1),
        ("10%", ["10"], 1, 1),
        ("“Oslo”", ["Oslo"], 0, 0),  # curly quotes are not ASCII
        ("Zürich", ["Zurich"], 0, 0),  # accents count
        ("in Seattle", ["Seattle"], 0, 2 / 3),
        ("Seattle, Washington", ["Seattle"], 0, 2 / 3),
        ("Seattle Seattle", ["Seattle"], 0, 2 / 3),  # a word counts as often as both have it
        ("la la", ["la la land"], 0, 4 / 5),
        ("Washington Seattle", ["Seattle, Washington"], 0, 1),  # order does not count
        ("one two three", ["four"], 0, 0),
        ("in Seattle", ["Paris", "Seattle", "in Seattle now"], 0, 4 / 5),  # the best of several
        ("Seattle", ["Paris", "The Seattle"], 1, 1),
        ("", [""], 1, 1),  # no answer, rightly
        ("", ["Seattle"], 0, 0),
        ("Seattle", [""], 0, 0),
        ("the", [""], 1, 1),  # nothing is left of it
        ("", ["...", "Oslo"], 0, 0),  # a right answer of which nothing is left does not count beside another
        ("", ["..."], 1, 1),  # but alone it is no answer
        ("?", ["Oslo"], 0, 0),
    ],
)
def test_squad_hard_cases(answer: str, golds: list[str], exact: float, f1: float) -> None:
    assert metrics.squad_exact(answer, golds) == exact
    assert metrics.squad_f1(answer, golds) == pytest.approx(f1)


def test_squad_is_the_mean_over_questions() -> None:
    scores = metrics.squad([["Oslo"], ["Seattle"], [""]], ["Oslo", "in Seattle", ""])
    assert scores == {"f1": pytest.approx((1 + 2 / 3 + 1) / 3), "exact_match": pytest.approx(2 / 3)}
    with pytest.raises(UserError, match="1 answers to 2 questions"):
        metrics.squad([["a"], ["b"]], ["a"])
    with pytest.raises(UserError, match="0 answers to 0 questions"):
        metrics.squad([], [])
    with pytest.raises(UserError, match="a question has no right answer"):
        metrics.squad([[]], [""])


@pytest.mark.parametrize(
    ("margins", "spans", "nulls", "expected"),
    [
        ([1.0, 2.0, 3.0], [1.0, 0.5, 0.0], [0, 0, 1], (2.5, 2.5 / 3)),
        ([1.0, 2.0], [0.0, 0.0], [1, 1], (0.0, 1.0)),  # never a span: below the lowest margin
        ([1.0, 2.0], [0.5, 1.0], [0, 0], (3.0, 0.75)),  # always a span
        ([2.0, 2.0, 2.0], [1.0, 0.0, 0.0], [0, 1, 1], (1.0, 2 / 3)),  # equal margins cannot be parted
        ([3.0, -1.0], [0.0, 1.0], [1, 0], (1.0, 1.0)),
    ],
)
def test_best_threshold(
    margins: list[float], spans: list[float], nulls: list[float], expected: tuple[float, float]
) -> None:
    threshold, score = metrics.best_threshold(margins, spans, nulls)
    assert (threshold, score) == pytest.approx(expected)
    selected = [null if margin > threshold else span for margin, span, null in zip(margins, spans, nulls, strict=True)]
    assert np.mean(selected) == pytest.approx(score)


INFINITE = float("inf")


@pytest.mark.parametrize(
    ("margins", "best"),
    [
        (np.float32([1 + 2**-23, 1 + 2**-22]), 1.0),  # nothing of 32 bits lies between
        ([1.0, np.nextafter(1.0, 2)], 1.0),
        ([-1e308, 1.7e308], 1.0),  # their sum is infinite
        ([-INFINITE, INFINITE], 1.0),
        ([-INFINITE, 5.0], 1.0),
        ([5.0, INFINITE], 1.0),
        ([INFINITE, -INFINITE], 0.0),
        ([INFINITE, INFINITE], 0.5),
        ([-INFINITE, -INFINITE], 0.5),
        (np.float32([7, 7]), 0.5),
    ],
)
def test_the_threshold_gives_the_score_that_is_reported(margins: Sequence[float], best: float) -> None:
    for spans, nulls, expected in (([1, 0], [0, 1], best), ([0, 0], [1, 1], None), ([1, 1], [0, 0], None)):
        threshold, score = metrics.best_threshold(margins, spans, nulls)
        assert np.mean(np.where(np.asarray(margins) > threshold, nulls, spans)) == score
        assert score == expected or expected is None


@pytest.mark.parametrize("margin", [1e17, -1e17, np.float32(1e30), 1.7e308, -1.7e308, INFINITE, -INFINITE])
@pytest.mark.parametrize(("span", "null"), [(1, 0), (0, 1)])
def test_one_question_has_a_threshold(margin: float, span: float, null: float) -> None:
    threshold, score = metrics.best_threshold([margin], [span], [null])
    assert (null if margin > threshold else span) == score
    assert np.isfinite(threshold)


def test_no_question_has_no_threshold() -> None:
    with pytest.raises(UserError, match="0 margins and 0 scores of spans: give one of each for a question"):
        metrics.best_threshold([], [], [])
    with pytest.raises(UserError, match="1 margins and 2 scores of spans"):
        metrics.best_threshold([1.0], [1, 0], [0, 1])
    with pytest.raises(UserError, match="a margin is not a number: the model gave NaN"):
        metrics.best_threshold([1.0, float("nan")], [1, 0], [0, 1])
