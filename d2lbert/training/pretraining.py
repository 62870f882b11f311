"""What the pretraining loops of both editions share: their steps, what is logged, and whether it is the same run."""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import BEGINNING, Position, TextData, TrainingBatch
from d2lbert.errors import UserError
from d2lbert.tasks.base import IGNORED
from d2lbert.training.inputs import check_finite
from d2lbert.training.log import TrainingLog
from d2lbert.training.progress import per_second, show_speed

CHECKPOINTS = "checkpoints"
LOG = "log.csv"
# What may change when a run is resumed: it affects no weight.
_MAY_CHANGE = ("tensorboard", "keep", "save_every", "log_every", "validate_every", "validation_batches")


class BaseTrainer(ABC):
    """What a pretraining run counts and logs, whatever computes it. An edition adds its model, optimizer and files.

    Args:
        model: with its first weights.
        data: the training batches, with the objectives of the model.
        dev: batches of held-out documents, or None.
        settings: of the run.
        out: folder for checkpoints, the log and the trained model.

    Attributes:
        losses: of the last step.
        saved: the step of the newest checkpoint, 0 where there is none.
        interrupted: set to True, for example by a signal handler, to end the run after the current step.

    Raises:
        UserError: ``data`` or ``dev`` gives no batch.
    """

    def __init__(
        self, model: Any, data: TextData[Any], dev: TextData[Any] | None, settings: Pretraining, out: Path
    ) -> None:
        self.model, self.data, self.dev, self.settings, self.out = model, data, dev, settings, out
        for part in (data, dev):
            if part is not None:
                part.check()
        self.step = 0
        self.position = BEGINNING
        self.tokens = 0  # seen so far
        self.losses: dict[str, float] = {}
        self.saved = 0
        self.interrupted = False

    @abstractmethod
    def train_step(self, batches: Iterator[tuple[TrainingBatch, Position]]) -> dict[str, float]:
        """Take one training step and return its losses.

        Args:
            batches: where the step takes its ``accumulation`` batches from.

        Returns:
            The learning rate, and the mean loss of each objective in nats.
        """

    @abstractmethod
    def losses_and_hits(self, batch: TrainingBatch) -> tuple[list[float], list[int]]:
        """Return for each objective the mean loss of a batch without dropout, and how many targets were predicted."""

    @abstractmethod
    def save(self) -> None:
        """Write a checkpoint."""

    def train(
        self,
        batches: Iterator[tuple[TrainingBatch, Position]],
        log: TrainingLog | None,
        bar: tqdm,
        last: dict[str, float],
    ) -> dict[str, float]:
        """Train to the last step: log, save and validate where it is due. Return the last line of the log.

        Args:
            log: None where another process writes it.
            last: the line that a resumed run has written at once, if any.

        Raises:
            KeyboardInterrupt: between two steps, once ``interrupted`` is set; after a checkpoint.
        """
        settings = self.settings
        began, tokens_before = time.perf_counter(), self.tokens
        while self.step < settings.steps:
            if self.is_interrupted():
                if self.step > self.saved:
                    self.save()
                raise KeyboardInterrupt
            self.losses = self.train_step(batches)
            rate = per_second(self.tokens - tokens_before, time.perf_counter() - began)
            show_speed(bar, f"loss {self.losses[loss_names(self.data.objectives)[0]]:.3f}", rate)
            if self.is_due(settings.save_every):
                self.save()
            last = self.report(log, rate) or last
        return last or {"step": self.step, **self.validate()}

    def is_interrupted(self) -> bool:
        """Whether the run was told to stop."""
        return self.interrupted

    def is_due(self, every: int) -> bool:
        """Whether this is one of every so many steps, or the last."""
        return self.step == self.settings.steps or self.step % every == 0

    def report(self, log: TrainingLog | None, tokens_per_second: float | None = None) -> dict[str, float]:
        """Validate and write a line of the log, each where it is due; return the line."""
        validate = self.is_due(self.settings.validate_every)
        if not validate and self.step % self.settings.log_every:
            return {}
        row = {"step": self.step, "epoch": self.position.epoch, "tokens": self.tokens, **self.losses}
        row |= self.validate() if validate else {}
        row |= {} if tokens_per_second is None else {"tokens_per_second": round(tokens_per_second)}
        if log is not None:
            log.write(row)
        return row

    def count_step(
        self, step_batches: Sequence[tuple[TrainingBatch, Position]], means: Sequence[float], factor: float
    ) -> dict[str, float]:
        """Count a step that was taken; return what :meth:`train_step` does.

        Args:
            step_batches: that it was taken on.
            means: the loss of each objective.
            factor: on the learning rate.

        Raises:
            UserError: a loss is not finite.
        """
        self.step += 1
        self.position = step_batches[-1][1]
        self.tokens += sum(batch.rows.num_tokens for batch, _ in step_batches)
        check_finite(sum(means), self.step)
        named = dict(zip(loss_names(self.data.objectives), means, strict=True))
        return {"learning_rate": self.settings.learning_rate * factor, **named}

    def validate(self) -> dict[str, float]:
        """Return losses and accuracies on held-out documents, always on the same batches with the same masks.

        Returns:
            For each objective the mean loss in nats and the accuracy, a fraction; nothing without ``dev``. Masked words
            are counted at ``[MASK]`` alone (:class:`~d2lbert.data.pretraining.batches.PretrainingData`).
        """
        if self.dev is None:
            return {}
        totals = np.zeros(len(self.dev.objectives))
        losses, correct = np.zeros_like(totals), np.zeros_like(totals)
        for batch, _ in itertools.islice(self.dev.epoch(0), self.settings.validation_batches):
            means, hits = self.losses_and_hits(batch)
            counts = count_targets(batch)
            losses += means * counts
            correct += hits
            totals += counts
        return dev_scores(self.dev.objectives, losses, correct, totals)

    def numbers(self) -> dict[str, Any]:
        """Return what a checkpoint holds besides weights and moments, as JSON values."""
        place = {"step": self.step, "position": self.position, "tokens": self.tokens}
        return {**place, "losses": self.losses, "run": self.description()}

    def restore_numbers(self, numbers: dict[str, Any]) -> None:
        """Load what :meth:`numbers` returned."""
        self.step, self.tokens = int(numbers["step"]), int(numbers["tokens"])
        self.position = Position(*map(int, numbers["position"]))
        self.losses, self.saved = dict(numbers.get("losses", {})), self.step

    def description(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as it is read back from JSON."""
        return description(self.settings, self.data, self.model.config)


def count_targets(batch: TrainingBatch) -> np.ndarray:
    """Return the number of targets of each objective."""
    return np.array([int((targets != IGNORED).sum()) for targets in batch.targets.values()])


def loss_names(objectives: Sequence[str]) -> list[str]:
    """Return the names of the losses in the log."""
    return [f"{name}_loss" for name in objectives]


def log_columns(objectives: Sequence[str]) -> list[str]:
    """Return the columns of the log of a run with these objectives."""
    losses = loss_names(objectives)
    scores = [*losses, *(f"dev_{name}" for name in (*losses, *_accuracy_names(objectives)))]
    return ["step", "epoch", "tokens", "learning_rate", *scores, "tokens_per_second"]


def dev_scores(
    objectives: Sequence[str], losses: np.ndarray, correct: np.ndarray, totals: np.ndarray
) -> dict[str, float]:
    """Return for each objective the mean loss in nats and the accuracy, a fraction, by their names in the log.

    Args:
        losses: of each objective, summed over its targets.
        correct: how many targets of each were predicted.
        totals: how many targets each has.
    """
    names = [f"dev_{name}" for name in (*loss_names(objectives), *_accuracy_names(objectives))]
    means = np.concatenate([losses, correct]) / np.maximum(1, np.tile(totals, 2))
    return dict(zip(names, means.tolist(), strict=True))


def _accuracy_names(objectives: Sequence[str]) -> list[str]:
    return [f"{name}_accuracy" for name in objectives]


def description(settings: Pretraining, data: TextData[Any], config: Any) -> dict[str, Any]:
    """Return what must be the same when a run is resumed, as it is read back from JSON.

    Args:
        data: what is trained on.
        config: of the model.
    """
    run = {name: value for name, value in dataclasses.asdict(settings).items() if name not in _MAY_CHANGE}
    examples = {f"data.{name}": value for name, value in dataclasses.asdict(data.settings).items()}
    model = {f"model.{name}": value for name, value in dataclasses.asdict(config).items()}
    return json.loads(json.dumps({**run, **examples, **model, "corpus": data.shards.digest()}))


def check_same(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to go on with a run that was another.

    Args:
        before, now: of :func:`description`.

    Raises:
        UserError: they differ.
    """
    for name in (*now, "edition"):
        if before.get(name) != now.get(name):
            change = f"{name} was {before.get(name)} and is now {now.get(name)}"
            raise UserError(f"--resume: {change}; give what it was, or another --out")
