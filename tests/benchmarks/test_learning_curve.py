"""The law of a learning curve: found again where it was put in, and only after the steepest fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning_curve import fits, read_curve
from d2lbert import UserError


def _curve(rest: int, points: int) -> dict[str, list[float]]:
    """A rest at 7 nats, and then 3 + 20 n^(-0.8) for n million tokens."""
    millions = np.arange(1, rest + points + 1) * 3.0
    losses = np.where(np.arange(rest + points) < rest, 7.0, 3 + 20 * millions**-0.8)
    steps = np.arange(1, rest + points + 1) * 500.0
    return {"step": steps.tolist(), "tokens": (millions * 1e6).tolist(), "dev_masked_loss": losses.tolist()}


@pytest.mark.parametrize(("rest", "first_step"), [(0, 1500), (5, 3500)])
def test_the_law_is_found_and_the_rest_is_left_out(rest: int, first_step: int) -> None:
    curve = _curve(rest, 30)
    found = fits(curve)
    assert found["first step"] == first_step
    for part in ("all", "first half"):
        law = [found[part][name] for name in ("floor", "factor", "exponent")]
        assert law == pytest.approx([3, 20, 0.8], rel=1e-3)
        assert found[part]["distance"] < 1e-4
    foretold = found["last loss, foretold from the first half"]
    assert foretold == pytest.approx(found["last loss"], abs=1e-3)
    assert found["last loss"] == curve["dev_masked_loss"][-1]


def test_too_few_points_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"4 points after the steepest fall are too few for a law: train for longer"):
        fits(_curve(5, 5))
    log = tmp_path / "log.csv"
    log.write_text("step,tokens,learning_rate,dev_masked_loss\n1,10,0.1,\n2,20,0.1,7.5\n")
    with pytest.raises(UserError, match=r"log\.csv holds 1 validations, too few for a curve"):
        read_curve(log)
