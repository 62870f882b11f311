"""Labels of a smaller model: how they differ from those of the exact one, and the error of the difference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.labels import compared


def test_changed_labels_give_the_difference_and_its_error() -> None:
    truth = np.zeros(100, dtype=int)
    exact, found = truth.copy(), truth.copy()
    exact[:10] = 1  # wrong before
    found[[0, 1, 20, 30, 40, 50]] = 1  # eight of these are right now, four others are wrong
    result = compared(found, exact, truth)
    assert (result["changed"], result["right before"], result["right after"]) == (12, 4, 8)
    assert result["accuracy"] == pytest.approx(0.94)
    assert result["difference"] == pytest.approx(0.04)
    values = np.array([1] * 8 + [-1] * 4 + [0] * 88)
    assert result["standard_error_of_difference"] == pytest.approx(values.std() / math.sqrt(100))
