"""Fine-tuning: one plain loop for every task.

Shape legend: N texts of a batch, C labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from mxnet import Context, autograd, gluon, nd
from tqdm import tqdm

from d2lbert.config.training import Training
from d2lbert.errors import UserError
from d2lbert.mxnet.blocks import shared_names
from d2lbert.mxnet.runtime import best_device, place, seed_everything, seed_step, to_tensors
from d2lbert.mxnet.training.evaluation import compute_outputs
from d2lbert.mxnet.training.losses import check_weights, compute_loss
from d2lbert.mxnet.training.optim import Optimization
from d2lbert.mxnet.training.resuming import fingerprint_of_weights, load_checkpoint, save_checkpoint
from d2lbert.tasks.base import Task
from d2lbert.text import Tokenizer
from d2lbert.training.inputs import label_weights
from d2lbert.training.progress import progress_bar
from d2lbert.training.run import BaseRun, History, Plan, identity, plan_run
from d2lbert.training.schedules import linear_warmup_and_decay


def fine_tune(
    model: gluon.HybridBlock,
    task: Task,
    tokenizer: Tokenizer,
    train: Sequence[Any],
    dev: Sequence[Any],
    settings: Training,
    device: Context | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> History:
    """Train ``model`` on ``train``, score it on ``dev`` after every epoch, and leave it with its best weights.

    From the same weights and without dropout it follows the PyTorch edition step by step. It hybridizes the model.

    Args:
        model: maps the rows of a batch to the logits that the task's loss takes.
        task: turns examples into inputs and targets, and logits into scores.
        train, dev: labelled examples, of the type that the task takes.
        device: where to train; by default :func:`~d2lbert.mxnet.runtime.best_device`. The model stays there.
        progress: show a bar with tokens per second on standard error.
        checkpoint: a folder. The state is saved there after every epoch. If it already holds a state, the run continues
            from it, to the same weights as if it had never stopped. Encoder, examples and settings must be the same.
        stopped: asked before every step. Where it says so, the state is saved, in the middle of an epoch too.

    Returns:
        One record for each epoch: mean training loss, seconds, tokens per second, and the scores on ``dev``. The best
        epoch has the highest score ``settings.best_by``, by default the task's first; ``epoch`` keeps the last one.

    Raises:
        UserError: an example is a bare text or has no label, a text is longer than the model takes, there is no such
            score, the checkpoint belongs to another run, the loss or a weight is not finite, or bfloat16 is asked for.
        KeyboardInterrupt: ``stopped`` said so.
    """
    if settings.precision == "bfloat16":
        raise UserError("the mxnet edition trains in float32 alone: leave the precision out, or use the torch edition")
    plan = plan_run(model, task, tokenizer, train, dev, settings)
    seed_everything(settings.seed)
    device = place(model, device or best_device())
    model.hybridize()
    run = Run(model, device, plan, checkpoint)
    run.stopped = stopped
    if checkpoint is not None:
        encoder = fingerprint_of_weights(getattr(model, "bert", model))
        run.identity = {**asdict(settings), "edition": "mxnet", **identity(task, train, dev, encoder)}
        with load_checkpoint(checkpoint, run.identity) as saved:
            if saved is not None:
                run.restore(*saved)
    with progress_bar(run.total_steps, run.step, progress) as bar:
        while not run.is_over:
            record = train_epoch(run, bar)
            check_weights(model, run.step, checkpoint)
            scores = task.score(dev, plan.dev_inputs, compute_outputs(model, plan.dev_inputs, tokenizer))
            run.finish_epoch({**record, **scores})
            run.save()
    run.load_weights(run.best_weights)
    run.settle(model)
    return run.history


class Run(BaseRun):
    """A fine-tuning run: its model, and the state that changes from epoch to epoch and goes into a checkpoint.

    Args:
        model: on its device.
        plan, checkpoint: as for :class:`~d2lbert.training.run.BaseRun`.
    """

    best_weights: dict[str, np.ndarray]

    def __init__(self, model: gluon.Block, device: Context, plan: Plan, checkpoint: str | Path | None = None) -> None:
        super().__init__(plan, checkpoint)
        self.model, self.device = model, device
        self.class_weights = label_weights(plan.task, plan.inputs) if plan.settings.balanced else None
        self.optimization = Optimization.of(model, plan.settings)
        self.best_weights = self.weights()

    def weights(self) -> dict[str, np.ndarray]:
        """Return a copy of the model's weights."""
        return {name: parameter.data().asnumpy() for name, parameter in shared_names(self.model).items()}

    def load_weights(self, weights: dict[str, np.ndarray]) -> None:
        """Give the model other weights."""
        for name, parameter in shared_names(self.model).items():
            parameter.set_data(nd.array(weights[name]))

    def write(self) -> None:
        """Write a checkpoint."""
        assert self.checkpoint is not None
        arrays = {f"model.{name}": array for name, array in self.weights().items()}
        arrays |= {f"best.{name}": array for name, array in self.best_weights.items()}
        arrays |= self.optimization.moments()
        save_checkpoint(self.checkpoint, self.step, self.identity, arrays, self.counters())

    def restore(self, arrays: dict[str, np.ndarray], counters: dict[str, Any]) -> None:
        """Load what :meth:`write` wrote."""
        self.load_weights({name: arrays[f"model.{name}"] for name in self.best_weights})
        self.best_weights = {name: arrays[f"best.{name}"] for name in self.best_weights}
        self.restore_counters(counters)
        self.optimization.restore(arrays, self.step)


def train_epoch(run: Run, bar: tqdm) -> dict[str, float]:
    """Pass once over the inputs in a new order, or over what is left of them where a run was stopped in between.

    Returns:
        The epoch, counted from 1, the mean loss, the seconds, and the tokens per second.

    Raises:
        KeyboardInterrupt: the run was told to stop.
    """
    for items, batch in run.batches():
        seed_step(run.settings.seed, run.step)
        with autograd.record():
            logits = run.model(to_tensors(batch, run.device))
            loss = compute_loss(run.task.loss, logits, [item.target for item in items], batch, run.class_weights)
        factor = linear_warmup_and_decay(run.step, run.warmup_steps, run.total_steps)
        run.count(run.optimization.descend(loss, factor), items, batch, bar)
    return run.record()
