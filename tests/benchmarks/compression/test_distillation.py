"""What the benchmark of distillation makes of its runs: means over seeds, errors over sentences."""

from __future__ import annotations

import math

import pytest

from benchmarks.compression.distillation import summary


def _run(right: list[int], seconds: float) -> dict:
    history = [{"epoch": 1, "seconds": seconds}, {"epoch": 2, "seconds": 1.0}]
    return {"parameters": 10, "texts": 3, "history": history, "right": [bool(one) for one in right]}


def test_a_summary_by_hand() -> None:
    """Two seeds and four sentences; a sentence counts by its mean over the seeds."""
    ours = [_run([1, 1, 1, 0], 2.0), _run([1, 1, 0, 0], 4.0)]
    others = [_run([1, 0, 0, 0], 2.0), _run([1, 0, 0, 1], 4.0)]
    found = summary(ours, others)
    assert found["accuracy"] == {
        "mean": 0.625,
        "std": pytest.approx(0.25 / math.sqrt(2)),
        "n": 2,
        "values": [0.75, 0.5],
    }
    # means over the seeds: 1, 1, 1/2, 0, and their differences to 1, 0, 0, 1/2: 0, 1, 1/2, -1/2
    assert found["standard_error"] == pytest.approx(math.sqrt((2 * 0.375**2 + 0.125**2 + 0.625**2) / 4) / 2)
    assert found["difference_to_labels"] == 0.25
    assert found["standard_error_of_difference"] == pytest.approx(math.sqrt((2 * 0.25**2 + 2 * 0.75**2) / 4) / 2)
    assert found["training_seconds"] == [3.0, 5.0]
    assert found["bytes"] == 40


def test_what_is_compared_with_itself_does_not_differ() -> None:
    same = [_run([1, 0, 1, 1], 1.0)]
    found = summary(same, same)
    assert (found["difference_to_labels"], found["standard_error_of_difference"]) == (0, 0)
    assert found["accuracy"]["mean"] == 0.75
