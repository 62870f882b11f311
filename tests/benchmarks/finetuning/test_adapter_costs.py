"""What a training step costs: which weights learn, what is held at the same time, and shares of time."""

from __future__ import annotations

import time

import pytest
import torch

from benchmarks.finetuning.adapter_costs import WHOLE, Learner, most_at_once, processor_seconds, times

MIB = 2**20


@pytest.fixture(scope="module")
def narrow() -> Learner:
    return Learner(2, (2, 8))


@pytest.fixture(scope="module")
def whole() -> Learner:
    return Learner(0, (2, 8))


def test_adapters_learn_and_nothing_else_but_the_classifier(narrow: Learner, whole: Learner) -> None:
    learning = {name for name, weight in narrow.model.named_parameters() if weight.requires_grad}
    assert {name.rpartition(".")[2] for name in learning if "classifier" not in name} == {"down", "up"}
    assert all(weight.requires_grad for weight in whole.model.parameters())
    assert whole.learning() == sum(weight.numel() for weight in whole.model.parameters()) > 100 * narrow.learning()


def test_what_is_held_by_hand() -> None:
    """Two arrays of 2 and 3 MiB at the same time, then, when the first is gone, one of 1 MiB more."""

    def work() -> None:
        first = torch.zeros(2 * MIB, dtype=torch.uint8)
        second = torch.zeros(3 * MIB, dtype=torch.uint8)
        del first
        third = torch.zeros(MIB, dtype=torch.uint8)
        assert len(second) > len(third)

    assert most_at_once(work) == 5 * MIB


def test_a_step_holds_at_least_the_gradients(narrow: Learner, whole: Learner) -> None:
    losses = [learner.step() for learner in (narrow, whole)]
    assert all(0 < loss < 10 for loss in losses)
    for learner in (narrow, whole):
        assert learner.kept() == pytest.approx(8 * learner.learning(), rel=1e-3)  # two means of four bytes
        assert most_at_once(learner.step) >= 4 * learner.learning()
        assert all(weight.grad is None for weight in learner.model.parameters())


def test_shares_are_those_of_the_same_turn() -> None:
    laps = [{WHOLE: 2.0, "rank 1": 1.0}, {WHOLE: 4.0, "rank 1": 3.0}]
    found = times("rank 1", laps)
    assert found["seconds"]["mean"] == 2
    assert found["share_of_seconds"]["values"] == [0.5, 0.75]


def test_who_waits_uses_no_processor() -> None:
    assert processor_seconds(lambda: time.sleep(0.2)) < 0.1
