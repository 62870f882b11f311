"""Pretraining: the loop that trains a BERT on text, on one device and in float32.

Its log, its settings and its batches are those of the PyTorch edition, and from the same weights and without dropout it
follows that one step by step. There are no several processes, no compiling and no TensorBoard.

Shape legend: P predicted tokens of a batch, C choices of an objective.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mxnet import Context, autograd, nd

from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import Position, TextData, TrainingBatch
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.blocks import shared_names
from d2lbert.mxnet.pretraining import BertForPretraining
from d2lbert.mxnet.runtime import best_device, place, seed_step, to_tensors
from d2lbert.mxnet.training.losses import pretraining_losses
from d2lbert.mxnet.training.optim import Optimization
from d2lbert.mxnet.training.resuming import read_numbers, read_state, write_state
from d2lbert.storage import checkpoints
from d2lbert.text import WordPiece
from d2lbert.training.log import TrainingLog
from d2lbert.training.pretraining import CHECKPOINTS, LOG, BaseTrainer, check_same, count_targets, log_columns
from d2lbert.training.progress import progress_bar
from d2lbert.training.schedules import linear_warmup_and_decay

_SEED_STEPS = 2**20  # more batches than a step has, so that every batch has a seed of its own


class Trainer(BaseTrainer):
    """A model in training: everything that a checkpoint holds.

    Args:
        model: with its first weights; it is hybridized.
        data: the training batches, with the objectives of the model.
        dev: batches of held-out documents, or None.
        settings: of the run.
        out: folder for checkpoints, the log and the trained model.
        device: where to train; by default :func:`~d2lbert.mxnet.runtime.best_device`.

    Raises:
        UserError: ``data`` or ``dev`` gives no batch, or a setting asks for what this edition does not have.
    """

    def __init__(
        self,
        model: BertForPretraining,
        data: TextData[Any],
        dev: TextData[Any] | None,
        settings: Pretraining,
        out: Path,
        device: Context | None = None,
    ) -> None:
        refuse_settings(settings)
        super().__init__(model, data, dev, settings, out)
        self.device = place(model, device or best_device())
        model.hybridize()
        self.optimization = Optimization(
            model, settings.learning_rate, settings.weight_decay, settings.clip, epsilon=1e-6
        )
        for parameter in self.optimization.parameters.values():
            parameter.grad_req = "add"  # the batches of a step add up

    def run(self, progress: bool = True) -> dict[str, float]:
        """Train to the last step and return the last line of the log.

        Args:
            progress: show a bar with tokens per second on standard error.

        Raises:
            KeyboardInterrupt: between two steps, once ``interrupted`` is set; after a checkpoint.
        """
        batches = self.data.batches(self.position)
        log = TrainingLog(self.out / LOG, log_columns(self.data.objectives), self.step)
        with log, progress_bar(self.settings.steps, self.step, progress) as bar:
            # A run that was killed after its checkpoint, while it validated, has no line for that step yet.
            lacks_row = self.losses and log.lacks_step
            return self.train(batches, log, bar, self.report(log) if lacks_row else {})

    def train_step(self, batches: Iterator[tuple[TrainingBatch, Position]]) -> dict[str, float]:
        """Take one training step on the next ``accumulation`` batches; return its learning rate and losses in nats."""
        settings = self.settings
        step_batches = list(itertools.islice(batches, settings.accumulation))
        counts = [count_targets(batch) for batch, _ in step_batches]
        totals = np.maximum(1, np.sum(counts, axis=0))
        sums = np.zeros(len(totals))
        for parameter in self.optimization.parameters.values():
            parameter.zero_grad()
        for index, (batch, _) in enumerate(step_batches):
            seed_step(settings.seed, self.step * _SEED_STEPS + index)
            weights = (counts[index] / totals).tolist()
            with autograd.record():
                losses = pretraining_losses(self._logits(batch), batch.targets)
                weighted = [loss * weight for loss, weight in zip(losses.values(), weights, strict=True)]
                total = nd.add_n(*weighted)
            total.backward()
            sums += [float(loss.asscalar()) for loss in weighted]
        factor = linear_warmup_and_decay(self.step, int(settings.warmup * settings.steps), settings.steps)
        self.optimization.step(factor)
        return self.count_step(step_batches, sums.tolist(), factor)

    def _logits(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Return the model's logits (P, C) of each objective that the batch has."""
        positions = nd.array(batch.positions, ctx=self.device, dtype="int32")
        logits = self.model.objectives(to_tensors(batch.rows, self.device), positions)
        return {name: logits[name] for name in batch.targets}

    def losses_and_hits(self, batch: TrainingBatch) -> tuple[list[float], list[int]]:
        logits = self._logits(batch)
        means = [float(loss.asscalar()) for loss in pretraining_losses(logits, batch.targets).values()]
        best = {name: logits[name].asnumpy().argmax(-1) for name in batch.targets}
        return means, [int((best[name] == targets).sum()) for name, targets in batch.targets.items()]

    def save(self) -> None:
        """Write a checkpoint. It is also a model folder, which the PyTorch edition and ``transformers`` load."""
        checkpoints.save(self.out / CHECKPOINTS, self.step, self._write, self.settings.keep)
        self.saved = self.step

    def _write(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.data.shards.tokenizer().save_pretrained(folder)
        weights = {f"weight.{name}": one.data().asnumpy() for name, one in shared_names(self.model).items()}
        write_state(folder, {**weights, **self.optimization.moments()}, self.numbers())

    def description(self) -> dict[str, Any]:
        return {"edition": "mxnet", **super().description()}

    def resume(self) -> bool:
        """Load the newest undamaged checkpoint in ``out``. Return False if there is none yet.

        Raises:
            UserError: all checkpoints are damaged, or they belong to a run with other settings or of the other edition.
        """
        folder = checkpoints.newest(self.out / CHECKPOINTS)
        if folder is None:
            return False
        with checkpoints.restoring(folder):
            check_same(read_numbers(folder)["run"], self.description())
            arrays, numbers = read_state(folder)
            for name, parameter in shared_names(self.model).items():
                parameter.set_data(nd.array(arrays[f"weight.{name}"]))
            self.restore_numbers(numbers)
            self.optimization.restore(arrays, self.step)
        return True

    def finish(self, tokenizer: WordPiece) -> None:
        """Write the trained model and its tokenizer into ``out``."""
        tokenizer.save_pretrained(self.out)
        self.model.save_pretrained(self.out)


def refuse_settings(settings: Pretraining) -> None:
    """Refuse what this edition does not have.

    Raises:
        UserError: bfloat16, compiling or TensorBoard is asked for.
    """
    asked = {
        "bfloat16": settings.precision == "bfloat16",
        "compiling": settings.compiled,
        "TensorBoard": settings.tensorboard,
    }
    for name, wanted in asked.items():
        if wanted:
            raise UserError(f"the mxnet edition has no {name}: leave it out, or use the torch edition")
