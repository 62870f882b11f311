"""What a training step costs: which weights learn, and how memory and time are told from two and twelve steps."""

from __future__ import annotations

import pytest

from benchmarks.children import Used
from benchmarks.finetuning import adapter_costs
from benchmarks.finetuning.adapter_costs import cost, learner, summary, take_steps


def test_adapters_learn_and_nothing_else_but_the_classifier() -> None:
    narrow = {name for name, weight in learner(2).named_parameters() if weight.requires_grad}
    assert narrow
    assert {name.rpartition(".")[2] for name in narrow if "classifier" not in name} == {"down", "up"}
    assert all(weight.requires_grad for weight in learner(0).parameters())


def test_the_costs_of_a_step_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes 400 MiB and 5 s; a step takes 3 s; the peak of two steps is below that of twelve."""
    asked = []

    def used_by(words: list[str], environment: dict[str, str]) -> Used:
        rank, steps, texts, tokens = map(int, words[-4:])
        asked.append((rank, steps, texts, tokens))
        return Used(5.0 + 3 * steps, 400.0 + (100 if steps else 0) + steps, "")

    monkeypatch.setattr(adapter_costs, "used_by", used_by)
    assert cost(8, (4, 32), "folder") == {"mebibytes": 112.0, "seconds": pytest.approx(3.0)}
    assert asked == [(8, 0, 4, 32), (8, 2, 4, 32), (8, 12, 4, 32)]


def test_shares_are_those_of_the_same_turn() -> None:
    whole = [{"mebibytes": 100.0, "seconds": 2.0}, {"mebibytes": 200.0, "seconds": 4.0}]
    own = [{"mebibytes": 50.0, "seconds": 1.0}, {"mebibytes": 150.0, "seconds": 3.0}]
    found = summary(own, whole, 1)
    assert found["share of mebibytes"]["values"] == [0.5, 0.75]
    assert found["share of seconds"]["mean"] == 0.625
    assert found["mebibytes"]["mean"] == 100
    assert 0 < found["learning"] < 100_000


def test_steps_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as asked for, and each has a loss."""
    losses = []
    descend = adapter_costs.descend

    def watched(*words: object) -> object:
        losses.append(float(descend(*words)))  # type: ignore[arg-type]
        return losses[-1]

    monkeypatch.setattr(adapter_costs, "descend", watched)
    monkeypatch.setattr(adapter_costs.torch, "set_num_threads", lambda _: None)
    take_steps(1, 3, 2, 8)
    assert len(losses) == 3
    assert all(0 < loss < 10 for loss in losses)
