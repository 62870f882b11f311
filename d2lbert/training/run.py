"""A fine-tuning run of either edition: its records, which epoch is best, and where it goes on when it was stopped."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from d2lbert.config.training import Training
from d2lbert.data.batching import Batch
from d2lbert.errors import UserError, unknown_name
from d2lbert.tasks.base import Input, Task
from d2lbert.text import Tokenizer
from d2lbert.training.inputs import check_examples, check_finite, check_inputs, collate, scores_of_zeros
from d2lbert.training.progress import per_second, show_speed

LAST = "epoch"  # what chooses the last epoch where a score would choose the best
LOGGED = ("epoch", "loss", "seconds", "tokens_per_second")  # what a record holds before its scores
# Tasks report these as well, but they cannot choose an epoch: the best error is the lowest, and a threshold says
# nothing about quality.
_NOT_SELECTABLE = ("mean_squared_error", "best_threshold")


class History(list[dict[str, float]]):
    """The records of a fine-tuning run, one for each epoch.

    Attributes:
        best: the record of the epoch whose weights the model keeps.
        best_by: the name of the score that chooses it.
    """

    def __init__(self, best_by: str, records: Iterable[dict[str, float]] = ()) -> None:
        super().__init__(records)
        self.best_by = best_by

    @property
    def shown(self) -> str:
        """The score to show of each epoch: the one that chooses, or the first where the last epoch is kept."""
        return next(name for name in self[0] if name not in LOGGED) if self.best_by == LAST else self.best_by

    @property
    def best(self) -> dict[str, float]:
        """The last record with the highest score: of two epochs that tie, the later has learned more."""
        return max(reversed(self), key=lambda record: record[self.best_by])


@dataclass(frozen=True)
class Partial:
    """What has been done of an epoch that is not yet over.

    Fields:
        examples, tokens: trained on.
        loss_sum: over these examples.
        seconds: that it took.
    """

    examples: int = 0
    tokens: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """What a run trains on and how, checked.

    Fields:
        inputs, dev_inputs: what the model sees of the examples to train on, and of those that choose the best epoch.
        best_by: the score that chooses it.
    """

    task: Task
    tokenizer: Tokenizer
    settings: Training
    inputs: Sequence[Input]
    dev_inputs: Sequence[Input]
    best_by: str


def plan_run(
    model: Any, task: Task, tokenizer: Tokenizer, train: Sequence[Any], dev: Sequence[Any], settings: Training
) -> Plan:
    """Return what a run needs besides its model; refuse what would stop it midway.

    Args:
        model: whose table of positions limits the texts.
        train, dev: labelled examples, of the type that the task takes.

    Raises:
        UserError: an example is a bare text or has no label, a text is longer than the model takes, or there is no such
            score.
    """
    check_examples([*train, *dev])
    inputs = task.inputs(train, tokenizer, settings.max_length)
    dev_inputs = task.inputs(dev, tokenizer, settings.max_length)
    check_inputs(model, inputs, dev_inputs)
    best_by = choose_score(task, dev, dev_inputs, settings.best_by)
    return Plan(task, tokenizer, settings, inputs, dev_inputs, best_by)


class BaseRun(ABC):
    """What a run counts and keeps, whatever computes it. An edition adds its model, its optimizer and its files.

    Args:
        plan: what it trains on, and how.
        checkpoint: the folder of its checkpoints, if it has any.

    Attributes:
        identity: what must be the same when the run is resumed.
        stopped: whether the run shall end before its next step.
    """

    best_weights: Any

    def __init__(self, plan: Plan, checkpoint: str | Path | None = None) -> None:
        self.task, self.tokenizer, self.settings = plan.task, plan.tokenizer, plan.settings
        self.inputs, self.checkpoint = plan.inputs, checkpoint
        self.order = np.random.default_rng(plan.settings.seed)
        self.history = History(plan.best_by)
        self.step, self.saved = 0, 0
        self.partial = Partial()
        self.identity: dict[str, Any] = {}
        self.stopped: Callable[[], bool] = lambda: False
        self._epoch_order = self._order_state()
        self._began = 0.0  # when the epoch under way would have begun if nothing had stopped it

    @abstractmethod
    def weights(self) -> Any:
        """Return a copy of the model's weights."""

    @abstractmethod
    def write(self) -> None:
        """Write a checkpoint."""

    @property
    def total_steps(self) -> int:
        """Steps of all epochs."""
        return self.settings.epochs * -(-len(self.inputs) // self.settings.batch_size)

    @property
    def warmup_steps(self) -> int:
        """Steps during which the learning rate rises."""
        return int(self.settings.warmup * self.total_steps)

    @property
    def epochs_since_best(self) -> int:
        """The number of epochs since a score was first as good as the best: a tie is no gain."""
        scores = [record[self.history.best_by] for record in self.history]
        return len(scores) - 1 - scores.index(max(scores)) if scores else 0

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or too many of them brought nothing."""
        impatient = 0 < self.settings.patience <= self.epochs_since_best
        return len(self.history) >= self.settings.epochs or impatient

    def batches(self) -> Iterator[tuple[list[Input], Batch]]:
        """Yield the inputs of each step of an epoch, in a new order, and the batch that the model reads.

        Where a run was stopped within an epoch, they are what is left of it. :meth:`count` follows each.

        Raises:
            KeyboardInterrupt: the run was told to stop.
        """
        settings, done = self.settings, self.partial
        self._began = time.perf_counter() - done.seconds
        shuffled = self.order.permutation(len(self.inputs))
        for start in range(done.examples, len(self.inputs), settings.batch_size):
            self.stop_if_told()
            items = [self.inputs[index] for index in shuffled[start : start + settings.batch_size]]
            texts = [encoding for item in items for encoding in item.encodings]
            yield items, collate(texts, self.tokenizer, settings.packed)

    def count(self, loss: float, items: Sequence[Input], batch: Batch, bar: tqdm) -> None:
        """Count a step that was taken on a batch, and show it.

        Args:
            loss: mean over ``items``, the inputs of the batch.

        Raises:
            UserError: the loss is not finite.
        """
        self.step += 1
        check_finite(loss, self.step, self.checkpoint)
        done, seconds = self.partial, time.perf_counter() - self._began
        tokens = done.tokens + batch.num_tokens
        self.partial = Partial(done.examples + len(items), tokens, done.loss_sum + loss * len(items), seconds)
        show_speed(bar, f"epoch {len(self.history) + 1}, loss {loss:.3f}", per_second(tokens, seconds))

    def record(self) -> dict[str, float]:
        """Return what is known of a whole epoch before it is scored: its number, from 1, the mean loss, the speed."""
        done = self.partial
        return {
            "epoch": len(self.history) + 1,
            "loss": done.loss_sum / len(self.inputs),
            "seconds": done.seconds,
            "tokens_per_second": per_second(done.tokens, done.seconds),
        }

    def finish_epoch(self, record: dict[str, float]) -> None:
        """Keep the record, and the weights if they are the best so far."""
        self.partial, self._epoch_order = Partial(), self._order_state()
        self.history.append(record)
        if self.history.best is record:
            self.best_weights = self.weights()

    def settle(self, model: Any) -> None:
        """Store in the trained model what its folder keeps besides weights: the length, and what the task has found."""
        model.trained_length = self.settings.max_length
        self.task.settle(model, self.history.best)

    def counters(self) -> dict[str, Any]:
        """Return what changes besides weights and moments, as plain values."""
        return {
            "order": self._epoch_order,
            "partial": asdict(self.partial),
            "history": list(self.history),
            "step": self.step,
        }

    def restore_counters(self, state: dict[str, Any]) -> None:
        """Load what :meth:`counters` returned."""
        self.order.bit_generator.state = json.loads(state["order"])
        self.step = state["step"]
        self.history = History(self.history.best_by, state["history"])
        self.partial = Partial(**state.get("partial", {}))  # of an older version: whole epochs only
        self._epoch_order, self.saved = state["order"], self.step

    def _order_state(self) -> str:
        """Return the state of the generator of orders, which in a checkpoint is that before the epoch under way."""
        return json.dumps(self.order.bit_generator.state)  # its integers have 128 bits

    def save(self) -> None:
        """Write a checkpoint, if the run has a folder for them and none of this step is there."""
        if self.checkpoint is not None and self.step > self.saved:
            self.write()
            self.saved = self.step

    def stop_if_told(self) -> None:
        """End the run if somebody said so, with a checkpoint of the last step.

        Raises:
            KeyboardInterrupt: somebody did.
        """
        if self.stopped():
            self.save()
            raise KeyboardInterrupt


def choose_score(task: Task, dev: Sequence[Any], inputs: Sequence[Input], name: str) -> str:
    """Return the name of the score that chooses the best epoch: ``name`` if it is not empty, else the task's first.

    By ``epoch`` the last is the best: what is scored then chooses nothing.

    Which scores the task has is found by scoring logits of zeros.

    Raises:
        UserError: the task has no such score on ``dev``, or its highest value is not the best.
    """
    if name in _NOT_SELECTABLE:
        raise UserError(f"best_by {name}: its highest value is not the best; choose another score")
    scores = scores_of_zeros(task, dev, inputs)
    if name and name not in (LAST, *scores):
        raise unknown_name("score best_by", name, scores)
    return name or next(iter(scores))


def identity(task: Task, train: Sequence[Any], dev: Sequence[Any], encoder: str) -> dict[str, Any]:
    """Return what, besides the settings, must be the same when a run is resumed, as JSON values.

    Args:
        encoder: the hash of its first weights. Those of a head need not be the same.
    """
    return {
        "loss": task.loss.name,
        "labels": list(task.labels),
        **task.identity(),
        "train": fingerprint_of_examples(train),
        "dev": fingerprint_of_examples(dev),
        "encoder": encoder,
    }


def check_same_run(folder: str | Path, before: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse to go on with a run whose settings were others.

    Args:
        folder: of its checkpoints, for the message.
        before: its settings, as JSON values.
        settings: those of now.

    Raises:
        UserError: they differ.
    """
    now = json.loads(json.dumps(settings))
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise UserError(
                f"{folder} is of another run: {name} was {before.get(name)!r} and is now {now.get(name)!r}; "
                f"give the same, or remove {folder} to start anew"
            )


def fingerprint_of_examples(examples: Iterable[Any]) -> str:
    """Return a short hash of examples, for ``settings``. Other examples, or another order, give another hash."""
    digest = hashlib.sha256()
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):  # an array with all its numbers
        for example in examples:
            digest.update(repr(example).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]
