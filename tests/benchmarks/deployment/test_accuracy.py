"""The benchmark of accuracy in int8: the mean over models."""

from __future__ import annotations

import math

import pytest

from benchmarks.deployment.accuracy import over_models


def test_the_mean_of_models_has_a_smaller_error() -> None:
    models = [
        {"int8": {"difference": difference, "standard_error_of_difference": 0.03}} for difference in (-0.01, 0.02, 0.05)
    ]
    found = over_models(models)["int8"]
    assert found["difference"] == pytest.approx(0.02)
    assert found["standard_error_of_difference"] == pytest.approx(0.03 / math.sqrt(3))
