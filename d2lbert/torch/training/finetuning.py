"""Fine-tuning: one plain loop for every task.

Shape legend: N texts of a batch, C labels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm

from d2lbert.config.training import Training
from d2lbert.tasks.base import Input, Task
from d2lbert.text import Tokenizer
from d2lbert.torch.runtime import autocast, best_device, place, seed_everything, to_tensors
from d2lbert.torch.training.evaluation import compute_outputs
from d2lbert.torch.training.losses import check_weights, compute_loss
from d2lbert.torch.training.optim import (
    UncorrectedAdamW,
    decay_groups,
    descend,
    layer_groups,
    scale_rates,
)
from d2lbert.torch.training.resuming import (
    fingerprint_of_weights,
    load_checkpoint,
    save_checkpoint,
)
from d2lbert.training.inputs import label_weights
from d2lbert.training.progress import progress_bar
from d2lbert.training.run import LAST as LAST  # its name for others
from d2lbert.training.run import BaseRun, History, Plan, identity, plan_run
from d2lbert.training.schedules import linear_warmup_and_decay


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
    plan = plan_run(model, task, tokenizer, train, dev, settings)
    seed_everything(settings.seed)
    device = place(model, device or best_device())
    run = Run(model, device, plan, checkpoint)
    run.stopped = stopped
    if checkpoint is not None:
        encoder = fingerprint_of_weights(getattr(model, "bert", model))
        run.identity = {**asdict(settings), **identity(task, train, dev, encoder)}
        with load_checkpoint(checkpoint, run.identity) as saved:
            if saved is not None:
                run.restore(saved)
    with progress_bar(run.total_steps, run.step, progress) as bar:
        while not run.is_over:
            record = train_epoch(run, bar)
            check_weights(model, run.step, checkpoint)
            scores = task.score(dev, plan.dev_inputs, compute_outputs(model, plan.dev_inputs, tokenizer))
            run.finish_epoch({**record, **scores})
            run.save()
    model.load_state_dict(run.best_weights)
    run.settle(model)
    model.eval()
    return run.history


class Run(BaseRun):
    """A fine-tuning run: its model, and the state that changes from epoch to epoch and goes into a checkpoint.

    Args:
        model: on its device.
        plan, checkpoint: as for :class:`~d2lbert.training.run.BaseRun`.
    """

    def __init__(
        self, model: nn.Module, device: torch.device, plan: Plan, checkpoint: str | Path | None = None
    ) -> None:
        super().__init__(plan, checkpoint)
        self.model, self.device = model, device
        self.class_weights = _class_weights(plan.task, plan.inputs, device) if plan.settings.balanced else None
        self.optimizer = _optimizer(model, plan.settings)
        self.best_weights = self.weights()

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the model's weights."""
        return copy.deepcopy(self.model.state_dict())

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as tensors and plain values."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best_weights": self.best_weights,
            **self.counters(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Load what :meth:`state` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best_weights = state["best_weights"]
        self.restore_counters(state)

    def write(self) -> None:
        """Write a checkpoint."""
        assert self.checkpoint is not None
        save_checkpoint(self.checkpoint, self.step, self.identity, self.state())


def train_epoch(run: Run, bar: tqdm) -> dict[str, float]:
    """Pass once over the inputs in a new order, or over what is left of them where a run was stopped in between.

    Returns:
        The epoch, counted from 1, the mean loss, the seconds, and the tokens per second.

    Raises:
        KeyboardInterrupt: the run was told to stop.
    """
    settings = run.settings
    run.model.train()
    for items, batch in run.batches():
        with autocast(run.device, settings.precision):
            logits = run.model(to_tensors(batch, run.device))
        loss = compute_loss(run.task.loss, logits, [item.target for item in items], batch, run.class_weights)
        scale_rates(run.optimizer, linear_warmup_and_decay(run.step, run.warmup_steps, run.total_steps))
        run.count(float(descend(loss, run.model, run.optimizer, settings.clip)), items, batch, bar)
    return run.record()


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
    """Return the weight of each label (C,); see :func:`~d2lbert.training.inputs.label_weights`."""
    return torch.tensor(label_weights(task, inputs), dtype=torch.float32, device=device)
