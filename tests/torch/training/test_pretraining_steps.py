"""Single steps of the pretraining loop, computed again by hand on a model of a few numbers."""

from __future__ import annotations

import copy
import csv
import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.data.batching import Batch, pad
from d2lbert.data.pretraining.batches import BEGINNING, Position
from d2lbert.text import Encoding
from d2lbert.torch.training.optim import linear_warmup_and_decay
from d2lbert.torch.training.pretraining import Pretraining, Trainer

VOCABULARY = 7
PLAIN = Pretraining(steps=4, learning_rate=0.01, warmup=0.0, weight_decay=0.0, log_every=1)


class _Guesser(nn.Module):
    """Guesses each token from its own vector."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 4)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(4, VOCABULARY)

    def objectives(self, rows: Any, positions: Tensor) -> dict[str, Tensor]:
        vectors = self.words(rows.token_ids).flatten(0, 1)[positions]
        return {"token": self.output(self.dropout(vectors))}


@dataclass
class _Batch:
    rows: Batch
    positions: np.ndarray
    targets: dict[str, np.ndarray]


def _batch(ids: list[int], targets: list[int]) -> _Batch:
    length = len(ids)
    encoding = Encoding(ids, [0] * length, [""] * length, [(0, 0)] * length, [False] * length)
    return _Batch(pad([encoding]), np.arange(length), {"token": np.array(targets)})


class _Data:
    """The same batches again and again."""

    objectives = ("token",)

    def __init__(self, *batches: _Batch) -> None:
        self.members = batches

    def check(self) -> None:
        """There is a batch in every epoch."""

    def epoch(self, epoch: int) -> Iterator[tuple[_Batch, Position]]:
        return ((batch, Position(epoch, 0, number + 1)) for number, batch in enumerate(self.members))

    def batches(self, start: Position = BEGINNING) -> Iterator[tuple[_Batch, Position]]:
        return itertools.chain.from_iterable(self.epoch(epoch) for epoch in itertools.count())


SHORT, LONG = _batch([1, 2], [3, 4]), _batch([5, 6, 1, 2, 3], [0, -100, 4, 1, 6])


def _trainer(out: Path, settings: Pretraining = PLAIN, data: _Data | None = None, dropout: float = 0.0) -> Trainer:
    torch.manual_seed(0)
    trainer = Trainer(_Guesser(dropout), data or _Data(SHORT), _Data(SHORT, LONG), settings, out)  # type: ignore[arg-type]
    trainer.save = lambda: None  # type: ignore[method-assign]
    return trainer


def _loss(model: Any, *batches: _Batch) -> Tensor:
    """The mean over all targets of all batches."""
    losses = []
    for batch in batches:
        rows = torch.from_numpy(batch.rows.token_ids)
        logits = model.output(model.dropout(model.words(rows).flatten(0, 1)))
        losses.append(functional.cross_entropy(logits, torch.from_numpy(batch.targets["token"]), reduction="none"))
    targets = np.concatenate([batch.targets["token"] for batch in batches])
    return torch.cat(losses).sum() / int((targets != -100).sum())


def test_a_step_follows_the_clipped_gradient(tmp_path: Path) -> None:
    """The clip is as small as Adam's epsilon, so that the length of the gradient shows in the step."""
    trainer = _trainer(tmp_path, dataclasses.replace(PLAIN, clip=1e-6))
    twin = copy.deepcopy(trainer.model)
    _loss(twin, SHORT).backward()
    gradients = {name: parameter.grad for name, parameter in twin.named_parameters()}
    norm = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    trainer.train_step(trainer.data.batches())
    for name, before in twin.named_parameters():
        clipped = gradients[name] * 1e-6 / norm
        expected = before - PLAIN.learning_rate * clipped / (clipped.abs() + 1e-6)
        assert torch.allclose(dict(trainer.model.named_parameters())[name], expected, atol=1e-6), name


def test_every_step_has_its_learning_rate(tmp_path: Path) -> None:
    settings = dataclasses.replace(PLAIN, steps=10, warmup=0.4, validate_every=100)
    trainer = _trainer(tmp_path, settings)
    used, step = [], trainer.optimizer.step

    def record() -> None:
        used.append([group["lr"] for group in trainer.optimizer.param_groups])
        step()

    trainer.optimizer.step = record  # type: ignore[method-assign, assignment]
    trainer.run(progress=False)
    expected = [settings.learning_rate * linear_warmup_and_decay(number, 4, 10) for number in range(10)]
    assert max(expected) == settings.learning_rate
    with (tmp_path / "log.csv").open() as stream:
        logged = [float(row["learning_rate"]) for row in csv.DictReader(stream)]
    assert logged == pytest.approx(expected)
    assert np.array(used) == pytest.approx(np.array([expected] * 2).T)


def test_dropout_is_new_at_every_step_and_the_same_in_a_second_run(tmp_path: Path) -> None:
    settings = dataclasses.replace(PLAIN, learning_rate=1e-12)  # the weights stay, so only dropout can differ
    runs = []
    for _ in range(2):
        trainer = _trainer(tmp_path, settings, dropout=0.5)
        runs.append([trainer.train_step(trainer.data.batches())["token_loss"] for _ in range(4)])
    assert len(set(runs[0])) == 4
    assert runs[0] == runs[1]


def test_the_batches_of_a_step_have_dropout_of_their_own(tmp_path: Path) -> None:
    settings = dataclasses.replace(PLAIN, learning_rate=1e-12, accumulation=2)
    torch.manual_seed(0)
    seen: list[Tensor] = []
    trainer = _trainer(tmp_path, settings, dropout=0.5)
    trainer.model.dropout.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    trainer.train_step(trainer.data.batches())
    assert len(seen) == 2
    assert not torch.equal(seen[0] == 0, seen[1] == 0)


def test_a_step_averages_over_targets_not_over_batches(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, dataclasses.replace(PLAIN, accumulation=2), _Data(SHORT, LONG))
    expected = _loss(trainer.model, SHORT, LONG).item()
    by_batch = (_loss(trainer.model, SHORT).item() + _loss(trainer.model, LONG).item()) / 2
    assert abs(by_batch - expected) > 1e-3
    assert trainer.train_step(trainer.data.batches())["token_loss"] == pytest.approx(expected, rel=1e-6)


def test_validation_has_no_dropout(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, dropout=0.5)
    trainer.train_step(trainer.data.batches())  # leaves the model with its dropout on
    scores = [trainer.validate() for _ in range(2)]
    assert scores[0] == scores[1]
    expected = _loss(copy.deepcopy(trainer.model).eval(), SHORT, LONG)
    assert scores[0]["dev_token_loss"] == pytest.approx(expected.item(), rel=1e-6)


def test_dropout_is_back_after_a_validation(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, dataclasses.replace(PLAIN, learning_rate=1e-12), dropout=0.5)
    losses = []
    for _ in range(2):
        trainer.validate()
        losses.append(trainer.train_step(trainer.data.batches())["token_loss"])
    assert losses[0] != losses[1]


def test_validation_counts_the_right_answers_among_the_targets(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path)
    with torch.no_grad():
        trainer.model.output.weight.zero_()
        trainer.model.output.bias.copy_(functional.one_hot(torch.tensor(4), VOCABULARY).float())  # always says 4
    assert trainer.validate()["dev_token_accuracy"] == pytest.approx(2 / 6)  # of six targets, one is ignored
