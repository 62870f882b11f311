"""Fine-tuning: one plain loop for every task.

Shape legend: N texts of a batch, C labels.
"""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from d2lbert.config.training import Training
from d2lbert.errors import UserError, unknown_name
from d2lbert.tasks.base import IGNORED, Input, Loss, Task
from d2lbert.text import Tokenizer
from d2lbert.torch.runtime import autocast, best_device, place, seed_everything, to_tensors
from d2lbert.torch.training.evaluation import check_examples, check_lengths, collate, compute_outputs
from d2lbert.torch.training.log import per_second, progress_bar, show_speed
from d2lbert.torch.training.losses import check_finite, check_weights, compute_loss
from d2lbert.torch.training.optim import (
    UncorrectedAdamW,
    decay_groups,
    descend,
    layer_groups,
    linear_warmup_and_decay,
    scale_rates,
)
from d2lbert.torch.training.resuming import (
    fingerprint_of_examples,
    fingerprint_of_weights,
    load_checkpoint,
    save_checkpoint,
)

LAST = "epoch"  # what chooses the last epoch where a score would choose the best
LOGGED = ("epoch", "loss", "seconds", "tokens_per_second")  # what a record holds before its scores


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


def fine_tune(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    train: Sequence[Any],
    dev: Sequence[Any],
    settings: Training,
    device: torch.device | str | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> History:
    """Train ``model`` on ``train``, score it on ``dev`` after every epoch, and leave it with its best weights.

    Args:
        model: maps the rows of a batch to the logits that the task's loss takes.
        task: turns examples into inputs and targets, and logits into scores.
        train, dev: labelled examples, of the type that the task takes.
        device: where to train; by default :func:`~d2lbert.torch.runtime.best_device`. The model stays there.
        progress: show a bar with tokens per second on standard error.
        checkpoint: a folder. The state is saved there after every epoch. If it already holds a state, the run continues
            from it, to the same weights as if it had never stopped. Encoder, examples and settings must be the same.
        stopped: asked before every step. Where it says so, the state is saved, in the middle of an epoch too.

    Returns:
        One record for each epoch: mean training loss, seconds, tokens per second, and the scores on ``dev``. The best
        epoch has the highest score ``settings.best_by``, by default the task's first; ``epoch`` keeps the last one.

    Raises:
        UserError: an example is a bare text or has no label, a text is longer than the model takes, there is no such
            score, the checkpoint belongs to another run, or the loss or a weight is not finite.
        KeyboardInterrupt: ``stopped`` said so.
    """
    check_examples([*train, *dev])
    inputs = task.inputs(train, tokenizer, settings.max_length)
    dev_inputs = task.inputs(dev, tokenizer, settings.max_length)
    check_inputs(model, inputs, dev_inputs)
    best_by = choose_score(task, dev, dev_inputs, settings.best_by)
    seed_everything(settings.seed)
    device = place(model, device or best_device())
    run = Run(model, task, tokenizer, settings, device, inputs, best_by, checkpoint)
    run.stopped = stopped
    if checkpoint is not None:
        run.identity = {**asdict(settings), **_identity(model, task, train, dev)}
        with load_checkpoint(checkpoint, run.identity) as saved:
            if saved is not None:
                run.restore(saved)
    with progress_bar(run.total_steps, run.step, progress) as bar:
        while len(run.history) < settings.epochs and not (0 < settings.patience <= run.epochs_since_best):
            record = train_epoch(run, bar)
            check_weights(model, run.step, checkpoint)
            scores = task.score(dev, dev_inputs, compute_outputs(model, dev_inputs, tokenizer))
            run.finish_epoch({**record, **scores})
            run.save()
    model.load_state_dict(run.best_weights)
    task.settle(model, run.history.best)
    model.eval()
    return run.history


def _identity(model: nn.Module, task: Task, train: Sequence[Any], dev: Sequence[Any]) -> dict[str, Any]:
    """Return what, besides the settings, must be the same when a run is resumed. A head's first weights need not be."""
    return {
        "loss": task.loss.name,
        "labels": list(task.labels),
        **task.identity(),
        "train": fingerprint_of_examples(train),
        "dev": fingerprint_of_examples(dev),
        "encoder": fingerprint_of_weights(getattr(model, "bert", model)),
    }


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


class Run:
    """A fine-tuning run: its inputs, and the state that changes from epoch to epoch and goes into a checkpoint.

    Args:
        model: on its device.
        inputs: what the model sees of the training examples.
        best_by: the score that chooses the best epoch.
        checkpoint: the folder of its checkpoints, if it has any.

    Attributes:
        identity: what must be the same when the run is resumed.
        stopped: whether the run shall end before its next step.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        tokenizer: Tokenizer,
        settings: Training,
        device: torch.device,
        inputs: Sequence[Input],
        best_by: str,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.model, self.task, self.tokenizer, self.settings, self.device = model, task, tokenizer, settings, device
        self.inputs, self.checkpoint = inputs, checkpoint
        self.class_weights = _class_weights(task, inputs, device) if settings.balanced else None
        self.optimizer = _optimizer(model, settings)
        self.order = np.random.default_rng(settings.seed)
        self.best_weights = copy.deepcopy(model.state_dict())
        self.history = History(best_by)
        self.step, self.saved = 0, 0
        self.partial = Partial()
        self.identity: dict[str, Any] = {}
        self.stopped: Callable[[], bool] = lambda: False
        self._epoch_order = self._order_state()

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

    def finish_epoch(self, record: dict[str, float]) -> None:
        """Keep the record, and the weights if they are the best so far."""
        self.partial, self._epoch_order = Partial(), self._order_state()
        self.history.append(record)
        if self.history.best is record:
            self.best_weights = copy.deepcopy(self.model.state_dict())

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as tensors and plain values."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "order": self._epoch_order,
            "partial": asdict(self.partial),
            "best_weights": self.best_weights,
            "history": list(self.history),
            "step": self.step,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Load what :meth:`state` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.order.bit_generator.state = json.loads(state["order"])
        self.best_weights, self.step = state["best_weights"], state["step"]
        self.history = History(self.history.best_by, state["history"])
        self.partial = Partial(**state.get("partial", {}))  # of an older version: whole epochs only
        self._epoch_order, self.saved = state["order"], self.step

    def _order_state(self) -> str:
        """Return the state of the generator of orders, which in a checkpoint is that before the epoch under way."""
        return json.dumps(self.order.bit_generator.state)  # its integers have 128 bits

    def save(self) -> None:
        """Write a checkpoint, if the run has a folder for them and none of this step is there."""
        if self.checkpoint is not None and self.step > self.saved:
            save_checkpoint(self.checkpoint, self.step, self.identity, self.state())
            self.saved = self.step

    def stop_if_told(self) -> None:
        """End the run if somebody said so, with a checkpoint of the last step.

        Raises:
            KeyboardInterrupt: somebody did.
        """
        if self.stopped():
            self.save()
            raise KeyboardInterrupt


def train_epoch(run: Run, bar: tqdm) -> dict[str, float]:
    """Pass once over the inputs in a new order, or over what is left of them where a run was stopped in between.

    Returns:
        The epoch, counted from 1, the mean loss, the seconds, and the tokens per second.

    Raises:
        KeyboardInterrupt: the run was told to stop.
    """
    settings, task, inputs, done = run.settings, run.task, run.inputs, run.partial
    began, loss_sum, tokens = time.perf_counter() - done.seconds, done.loss_sum, done.tokens
    epoch = len(run.history) + 1
    run.model.train()
    shuffled = run.order.permutation(len(inputs))
    for start in range(done.examples, len(inputs), settings.batch_size):
        run.stop_if_told()
        items = [inputs[index] for index in shuffled[start : start + settings.batch_size]]
        batch = collate([encoding for item in items for encoding in item.encodings], run.tokenizer, settings.packed)
        with autocast(run.device, settings.precision):
            logits = run.model(to_tensors(batch, run.device))
        loss = compute_loss(task.loss, logits, [item.target for item in items], batch, run.class_weights)
        scale_rates(run.optimizer, linear_warmup_and_decay(run.step, run.warmup_steps, run.total_steps))
        value = float(descend(loss, run.model, run.optimizer, settings.clip))
        run.step += 1
        check_finite(value, run.step, run.checkpoint)
        loss_sum += value * len(items)
        tokens += batch.num_tokens
        run.partial = Partial(start + len(items), tokens, loss_sum, time.perf_counter() - began)
        show_speed(bar, f"epoch {epoch}, loss {value:.3f}", per_second(tokens, time.perf_counter() - began))
    seconds = time.perf_counter() - began
    speed = per_second(tokens, seconds)
    return {"epoch": epoch, "loss": loss_sum / len(inputs), "seconds": seconds, "tokens_per_second": speed}


def _optimizer(model: nn.Module, settings: Training) -> torch.optim.Optimizer:
    """Return AdamW over the groups of parameters that the settings ask for."""
    if settings.layer_decay == 1:
        groups = decay_groups(model, settings.weight_decay)
    else:
        groups = layer_groups(model, settings.weight_decay, settings.learning_rate, settings.layer_decay)
    if not settings.bias_correction:
        return UncorrectedAdamW(groups, lr=settings.learning_rate)
    # Fused: one pass over the memory, not ten.
    return torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)


def _class_weights(task: Task, inputs: Sequence[Input], device: torch.device) -> Tensor:
    """Return the weight of each label (C,), inversely proportional to its frequency.

    The weights have a mean of 1 over the training targets if every label occurs. Otherwise the mean is the fraction of
    labels that occur.
    """
    if task.loss not in (Loss.LABEL, Loss.TOKENS):
        raise UserError("training: balanced weighs labels, but this task has none; leave it off")
    targets = np.hstack([item.target for item in inputs])
    counts = np.bincount(targets[targets != IGNORED], minlength=len(task.labels))
    weights = counts.sum() / (len(task.labels) * np.maximum(counts, 1))
    return torch.tensor(weights, dtype=torch.float32, device=device)


# Tasks report these as well, but they cannot choose an epoch: the best error is the lowest, and a threshold says
# nothing about quality.
_NOT_SELECTABLE = ("mean_squared_error", "best_threshold")


def check_inputs(model: nn.Module, train: Sequence[Input], dev: Sequence[Input]) -> None:
    """Refuse inputs that would stop the training midway or at its end.

    Raises:
        UserError: there are none, one to train on has no label, or a text is longer than the model takes.
    """
    for purpose, inputs in (("train on", train), ("choose the epoch on", dev)):
        if not inputs:
            raise UserError(f"no examples to {purpose}: give at least one")
    if any(item.target is None for item in train):
        raise UserError("an example to train on has no label: label every one, or leave it out")
    check_lengths(model, [*train, *dev])


def choose_score(task: Task, dev: Sequence[Any], inputs: Sequence[Input], name: str) -> str:
    """Return the name of the score that chooses the best epoch: ``name`` if it is not empty, else the task's first.

    By ``epoch`` the last is the best: what is scored then chooses nothing.

    Which scores the task has is found by scoring logits of zeros.

    Raises:
        UserError: the task has no such score on ``dev``, or its highest value is not the best.
    """
    if name in _NOT_SELECTABLE:
        raise UserError(f"best_by {name}: its highest value is not the best; choose another score")
    count = len(task.labels)
    zero_logits = {
        Loss.CHOICE: lambda item: np.zeros(len(item.encodings)),
        Loss.TOKENS: lambda item: np.zeros((len(item.encodings[0]), count)),
        Loss.SPAN: lambda item: np.zeros((len(item.encodings[0]), count)),
    }.get(task.loss, lambda item: np.zeros(count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all predictions are the same is no surprise
        scores = task.score(dev, inputs, [zero_logits(item) for item in inputs])
    if name and name not in (LAST, *scores):
        raise unknown_name("score best_by", name, scores)
    return name or next(iter(scores))
