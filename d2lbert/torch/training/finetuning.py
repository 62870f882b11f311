"""Fine-tuning: one plain loop for every task.

Shape legend: N texts of a batch, C labels.
"""

from __future__ import annotations

import copy
import json
import math
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
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
from d2lbert.torch.runtime import autocast, seed_everything, to_tensors
from d2lbert.torch.training.evaluation import _arrange, check_lengths, compute_outputs
from d2lbert.torch.training.losses import compute_loss
from d2lbert.torch.training.optim import UncorrectedAdamW, decay_groups, layer_groups, linear_warmup_and_decay
from d2lbert.torch.training.resuming import (
    fingerprint_of_examples,
    fingerprint_of_weights,
    load_checkpoint,
    save_checkpoint,
)


def fine_tune(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    train: Sequence[Any],
    dev: Sequence[Any],
    settings: Training,
    device: torch.device | str = "cpu",
    progress: bool = True,
    checkpoint: str | Path | None = None,
) -> list[dict[str, float]]:
    """Train ``model`` on ``train``, score it on ``dev`` after every epoch, and leave it with its best weights.

    Args:
        model: returns the logits that the task's loss wants for the tensors of a batch.
        progress: show a bar with tokens a second on standard error.
        checkpoint: a folder. The state is kept there after every epoch, and where one is there already the run goes
            on from it, to the same weights as if it had never been stopped. It must be of the same encoder, examples
            and settings.

    Returns:
        One record for each epoch: mean training loss, seconds, tokens a second, and the scores on ``dev``. The best
        epoch is the one with the highest first score, or ``settings.best_by``.

    Raises:
        UserError: an example has no label, a text is longer than the model takes, there is no such score, the
            checkpoint is of another run, or the loss is no longer a number.
    """
    inputs = task.inputs(train, tokenizer, settings.max_length)
    dev_inputs = task.inputs(dev, tokenizer, settings.max_length)
    check_inputs(model, inputs, dev_inputs)
    check_goal(task, dev, dev_inputs, settings.best_by)
    seed_everything(settings.seed)
    order = np.random.default_rng(settings.seed)
    model.to(device)
    steps = settings.epochs * -(-len(inputs) // settings.batch_size)
    optimizer, schedule = _optimizer(model, settings, steps)
    class_weights = _class_weights(task, inputs, device) if settings.balanced else None
    run = _Run(model, optimizer, schedule, order, copy.deepcopy(model.state_dict()))
    same: dict[str, Any] = {}
    if checkpoint is not None:
        same = {**asdict(settings), **_identity(model, task, train, dev)}
        run.restore(load_checkpoint(checkpoint, same))
    done = len(run.history) * (steps // settings.epochs)
    with tqdm(total=steps, initial=done, disable=not progress, file=sys.stderr, unit="step", mininterval=1.0) as bar:
        while len(run.history) < settings.epochs and not (0 < settings.patience <= run.waited):
            record = _train_epoch(run, task, inputs, tokenizer, settings, device, class_weights, bar)
            scores = task.score(dev, dev_inputs, compute_outputs(model, dev_inputs, tokenizer, device))
            run.finish_epoch({**record, **scores}, chosen_score(scores, settings.best_by))
            if checkpoint is not None:
                save_checkpoint(checkpoint, len(run.history), same, run.state())
    model.load_state_dict(run.best)
    model.eval()
    return run.history


def _identity(model: nn.Module, task: Task, train: Sequence[Any], dev: Sequence[Any]) -> dict[str, Any]:
    """Return what must be the same, beside the settings, when a run goes on: a head's first weights need not be."""
    return {
        "loss": task.loss.name,
        "labels": list(task.labels),
        "train": fingerprint_of_examples(train),
        "dev": fingerprint_of_examples(dev),
        "encoder": fingerprint_of_weights(getattr(model, "bert", model)),
    }


@dataclass
class _Run:
    """What changes from epoch to epoch: all that a checkpoint must hold, beside the random numbers of the libraries."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LambdaLR
    order: np.random.Generator
    best: dict[str, Any]
    best_score: float = -math.inf
    waited: int = 0  # epochs since the best
    history: list[dict[str, float]] = field(default_factory=list)

    def finish_epoch(self, record: dict[str, float], score: float) -> None:
        """Keep the record, and the weights if they are the best so far."""
        self.history.append(record)
        self.waited += 1
        if score > self.best_score:
            self.best, self.best_score, self.waited = copy.deepcopy(self.model.state_dict()), score, 0

    def state(self) -> dict[str, Any]:
        """Return everything as tensors and plain values."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "order": json.dumps(self.order.bit_generator.state),  # its integers have 128 bits
            "best": self.best,
            "best_score": self.best_score,
            "waited": self.waited,
            "history": self.history,
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Take over what :meth:`state` returned; None changes nothing."""
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.order.bit_generator.state = json.loads(state["order"])
        self.best, self.best_score = state["best"], state["best_score"]
        self.waited, self.history = state["waited"], state["history"]


def _train_epoch(
    run: _Run,
    task: Task,
    inputs: Sequence[Input],
    tokenizer: Tokenizer,
    settings: Training,
    device: torch.device | str,
    class_weights: Tensor | None,
    bar: tqdm,
) -> dict[str, float]:
    """Go once through the inputs in a new order; return the mean loss and the speed."""
    began, loss_sum, tokens = time.perf_counter(), 0.0, 0
    epoch = len(run.history) + 1
    run.model.train()
    shuffled = run.order.permutation(len(inputs))
    for start in range(0, len(inputs), settings.batch_size):
        chosen = [inputs[index] for index in shuffled[start : start + settings.batch_size]]
        batch = _arrange([encoding for one in chosen for encoding in one.encodings], settings.packed, tokenizer)
        with autocast(device, settings.precision):
            logits = run.model(to_tensors(batch, device))
        loss = compute_loss(task.loss, logits, [one.target for one in chosen], batch, class_weights)
        value = _step(run.model, loss, run.optimizer, settings.clip)
        run.schedule.step()
        loss_sum += value * len(chosen)
        tokens += batch.num_tokens
        bar.update()
        rate = tokens / (time.perf_counter() - began)
        bar.set_postfix_str(f"epoch {epoch}, loss {value:.3f}, {rate:,.0f} tokens/s", refresh=False)
    seconds = time.perf_counter() - began
    return {"epoch": epoch, "loss": loss_sum / len(inputs), "seconds": seconds, "tokens_per_second": tokens / seconds}


def _step(model: nn.Module, loss: Tensor, optimizer: torch.optim.Optimizer, clip: float) -> float:
    """Take one step of gradient descent and return the loss."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    value = float(loss.detach())
    if not np.isfinite(value):
        raise UserError(f"the loss became {value}: lower the learning rate")
    return value


def _optimizer(
    model: nn.Module, settings: Training, steps: int
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    """Return AdamW and the schedule of its learning rate, warm-up and linear decay."""
    if settings.layer_decay == 1:
        groups = decay_groups(model, settings.weight_decay)
    else:
        groups = layer_groups(model, settings.weight_decay, settings.learning_rate, settings.layer_decay)
    if settings.bias_correction:
        # Fused: one pass over the memory, not ten.
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
    else:
        optimizer = UncorrectedAdamW(groups, lr=settings.learning_rate)
    warmup = int(settings.warmup * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: linear_warmup_and_decay(step, warmup, steps))
    return optimizer, schedule


def _class_weights(task: Task, inputs: Sequence[Input], device: torch.device | str) -> Tensor:
    """Return the weight of each label (C,), inverse to its frequency.

    The mean over the training targets is 1 where every label occurs, the share of labels that occur where some do not.
    """
    if task.loss not in (Loss.LABEL, Loss.TOKENS):
        raise UserError("training: balanced weighs labels, but this task has none; leave it off")
    targets = np.hstack([one.target for one in inputs])
    counts = np.bincount(targets[targets != IGNORED], minlength=len(task.labels))
    weights = counts.sum() / (len(task.labels) * np.maximum(counts, 1))
    return torch.tensor(weights, dtype=torch.float32, device=device)


# What tasks report beside scores: a threshold says nothing of quality, and of an error the lowest is the best.
_NO_GOALS = ("mean_squared_error", "best_threshold")


def chosen_score(scores: dict[str, float], name: str) -> float:
    """Return the score that chooses the best epoch: the named one, or the first."""
    if name and name not in scores:
        raise unknown_name("score best_by", name, scores)
    return scores[name] if name else next(iter(scores.values()))


def check_inputs(model: nn.Module, train: Sequence[Input], dev: Sequence[Input]) -> None:
    """Refuse what would end in the middle of the training, or after it."""
    for what, inputs in (("train on", train), ("choose the epoch on", dev)):
        if not inputs:
            raise UserError(f"no examples to {what}: give at least one")
    if any(one.target is None for one in train):
        raise UserError("an example to train on has no label: label every one, or leave it out")
    check_lengths(model, [*train, *dev])


def check_goal(task: Task, dev: Sequence[Any], inputs: Sequence[Input], name: str) -> None:
    """Refuse a score that dev does not have, or whose highest value is not the best, by scoring zeros."""
    if name in _NO_GOALS:
        raise UserError(f"best_by {name}: its highest value is not the best; choose another score")
    count = len(task.labels)
    blank = {
        Loss.CHOICE: lambda one: np.zeros(len(one.encodings)),
        Loss.TOKENS: lambda one: np.zeros((len(one.encodings[0]), count)),
        Loss.SPAN: lambda one: np.zeros((len(one.encodings[0]), count)),
    }.get(task.loss, lambda one: np.zeros(count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all answers are the same is no news
        chosen_score(task.score(dev, inputs, [blank(one) for one in inputs]), name)
