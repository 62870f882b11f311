"""The benchmark of accuracy in int8: the mean over models, and whether the processor adds in 16 bits."""

from __future__ import annotations

import math

import pytest

from benchmarks.deployment.accuracy import over_models
from benchmarks.int8_sides import largest_sum


def test_the_mean_of_models_has_a_smaller_error() -> None:
    models = [
        {"int8": {"accuracy": 0.9, "changed": 5, "difference": difference, "standard_error_of_difference": 0.03}}
        for difference in (-0.01, 0.02, 0.05)
    ]
    found = over_models(models)["int8"]
    assert (found["accuracy"], found["changed"]) == (pytest.approx(0.9), 15)
    assert found["difference"] == pytest.approx(0.02)
    assert found["standard_error_of_difference"] == pytest.approx(0.03 / math.sqrt(3))


@pytest.mark.parametrize("width", [64, 128])
def test_a_sum_is_right_or_each_pair_of_products_is_cut_to_16_bits(width: int) -> None:
    assert largest_sum(width) in {255 * 127 * width, (2**15 - 1) * width // 2}
