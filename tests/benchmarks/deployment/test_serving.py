"""The benchmark of the server: what it makes of waiting times."""

from __future__ import annotations

import pytest

from benchmarks.clients import Answered
from benchmarks.deployment.serving import percentile, waiting


def test_a_percentile_is_a_value_that_enough_others_do_not_exceed() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([3.0], 0.01) == 3.0


def test_waiting_times_are_medians_over_turns() -> None:
    turns = [Answered(1.0, [0.001 * wait] * 10) for wait in (5, 2, 90)]
    assert waiting(turns) == pytest.approx({"p50": 5.0, "p99": 5.0})
