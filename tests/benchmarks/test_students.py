"""The loop that trains a student: what it minimizes, its rate, and how it goes on where it was stopped."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks import students
from benchmarks.students import learn


def batches() -> Iterator[Tensor]:
    """Pairs of an input and what is wanted, the same at each call."""
    generator = torch.Generator().manual_seed(0)
    while True:
        x = torch.randn(5, 3, generator=generator)
        yield torch.cat([x, x.sum(1, keepdim=True)], 1)


def trained(steps: int, checkpoint: Path | None = None, stop: int | None = None) -> tuple[nn.Module, list[float]]:
    """Train a line of three weights; with ``stop``, give no more than so many batches."""
    torch.manual_seed(1)
    student = nn.Linear(3, 1)

    def loss_of(batch: Tensor) -> Tensor:
        return (student(batch[:, :3]) - batch[:, 3:]).square().mean()

    return student, learn(student, itertools.islice(batches(), stop), loss_of, steps, 0.05, checkpoint)


def test_a_student_learns_and_the_means_of_its_loss_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(students, "MEAN_OF", 40)
    student, losses = trained(100)
    assert len(losses) == 3  # of 40, 40 and 20 steps
    assert losses[0] > losses[1] > losses[2]
    assert torch.allclose(student.weight, torch.ones(1, 3), atol=0.1)


def test_a_stopped_run_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(students, "SAVE_EVERY", 10)
    whole, losses = trained(40)
    path = tmp_path / "runs" / "state.pt"
    trained(40, path, stop=17)
    assert len(torch.load(path)["losses"]) == 10
    again, losses_again = trained(40, path)
    assert torch.equal(again.weight, whole.weight)
    assert losses_again == losses
    assert [one.name for one in path.parent.iterdir()] == ["state.pt"], "a part of a file is left"


def test_the_rate_ends_near_zero() -> None:
    """The last of many steps moves by less than a hundredth of the highest rate."""
    weights = []

    def loss_of(_: Tensor) -> Tensor:
        weights.append(student.weight.detach().clone())
        return student.weight.sum()  # the same slope at each step, so Adam moves by the rate

    student = nn.Linear(3, 1)
    learn(student, batches(), loss_of, 200, 0.05)
    weights.append(student.weight.detach().clone())
    moves = [float((after - before).abs().max()) for before, after in itertools.pairwise(weights)]
    assert max(moves) == pytest.approx(0.05, rel=0.05)
    assert moves[0] == pytest.approx(0.1 * max(moves), rel=0.05)  # a tenth: it rises over ten steps
    assert len(moves) == 200
    assert 0 < moves[-1] < 0.01 * max(moves)
