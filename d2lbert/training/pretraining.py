"""What the pretraining loops of both editions share: what is logged, and whether it is the same run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import TextData, TrainingBatch
from d2lbert.errors import UserError
from d2lbert.tasks.base import IGNORED

CHECKPOINTS = "checkpoints"
LOG = "log.csv"
# What may change when a run is resumed: it affects no weight.
_MAY_CHANGE = ("tensorboard", "keep", "save_every", "log_every", "validate_every", "validation_batches")


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
