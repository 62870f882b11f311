"""Pretraining: one plain loop, on one process or many, that can be killed at any moment and resumed.

It trains any model that has the objectives of its data: BERT predicts masked tokens and next sentences, GPT the next
token. The loss is the sum of the cross-entropies of all objectives
(:func:`d2lbert.torch.training.losses.pretraining_losses`).

Nothing random has a state that must be saved. Batches are a function of the seed and the position, dropout of the seed
and the number of the batch, the learning rate of the step. So a checkpoint holds weights, the optimiser's moments and
three numbers, and a resumed run ends with the same bits as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.config.training import Pretraining
from d2lbert.data.pretraining.batches import Position, TextData, TrainingBatch
from d2lbert.errors import UserError
from d2lbert.outputs import Rows
from d2lbert.storage import checkpoints
from d2lbert.storage.files import read_json, write_text
from d2lbert.text import WordPiece
from d2lbert.torch.runtime import autocast, compile_blocks, prefetch, to_device, to_tensors
from d2lbert.torch.training.distributed import World, gather, load_state, save_state
from d2lbert.torch.training.log import tensorboard_curves
from d2lbert.torch.training.losses import pretraining_losses
from d2lbert.torch.training.optim import decay_groups, scale_rates
from d2lbert.training.log import TrainingLog
from d2lbert.training.pretraining import CHECKPOINTS, LOG, BaseTrainer, check_same, count_targets, log_columns
from d2lbert.training.progress import progress_bar
from d2lbert.training.schedules import linear_warmup_and_decay

EVENTS = "tensorboard"
_STATE_FOLDER = "state"  # weights and moments
_NUMBERS_FILE = "state.json"


class Pretrainable(Protocol):
    """A model that the loop can train, such as :class:`~d2lbert.torch.BertForPretraining` or a GPT.

    Fields:
        config: its sizes, a frozen dataclass.
    """

    config: Any

    def objectives(self, rows: Rows[Tensor], positions: Tensor) -> dict[str, Tensor]:
        """Return the logits (P, C) of each objective, by its name in the batches of the data.

        Args:
            rows: of a batch.  positions: (P,), row times L plus column of each token that is predicted.
        """

    def save_pretrained(self, folder: str | Path) -> None:
        """Write a model folder."""


class _Objectives(nn.Module):
    """A model whose forward pass is its objectives: what ``DistributedDataParallel`` can wrap."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, rows: Rows[Tensor], positions: Tensor) -> dict[str, Tensor]:
        return self.model.objectives(rows, positions)


class Trainer(BaseTrainer):
    """A model in training: everything that a checkpoint holds.

    Args:
        model: a :class:`Pretrainable` module on its device, with its first weights.
        data: the training batches, with the objectives of the model.
        dev: batches of held-out documents, or None.
        settings: of the run.
        out: folder for checkpoints, the log and the trained model.
        world: this process among all that train together; alone by default.

    Raises:
        UserError: ``data`` or ``dev`` gives no batch, or the processes cannot share the batches of a step.
    """

    def __init__(
        self,
        model: Any,
        data: TextData[Any],
        dev: TextData[Any] | None,
        settings: Pretraining,
        out: Path,
        world: World | None = None,
    ) -> None:
        self.world = world or World()
        if settings.accumulation % self.world.size:
            raise UserError(
                f"pretraining: {self.world.size} processes cannot share {settings.accumulation} batches a step evenly; "
                "give --accumulation a multiple of the number of processes"
            )
        super().__init__(model, data, dev, settings, out)
        self.device = next(model.parameters()).device
        if settings.compiled:
            compile_blocks(model)
        self.parallel: nn.Module = self.world.wrap(_Objectives(model))
        groups = decay_groups(model, settings.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, eps=1e-6, fused=True)

    def run(self, progress: bool = True) -> dict[str, float]:
        """Train to the last step and return the last line of the log.

        Args:
            progress: show a bar with tokens per second on standard error, in the first process.

        Raises:
            KeyboardInterrupt: between two steps, once ``interrupted`` is set, in one of all processes at least; after a
                checkpoint.
        """
        settings = self.settings
        batches = self.data.batches(self.position)
        if self.device.type == "cuda":
            batches = prefetch(batches)
        log = self._log()
        show = progress and self.world.rank == 0
        with log or contextlib.nullcontext(), progress_bar(settings.steps, self.step, show) as bar:
            # A run that was killed after its checkpoint, while it validated, has no line for that step yet.
            lacks_row = self.losses and self.world.broadcast("yes" if log is not None and log.lacks_step else "")
            return self.train(batches, log, bar, self.report(log) if lacks_row else {})

    def is_interrupted(self) -> bool:
        """Whether any process was told to stop: a signal reaches them during different steps, and all must save one."""
        if self.world.size == 1:
            return self.interrupted
        return bool(self.world.all_reduce(torch.tensor(float(self.interrupted), device=self.device)))

    def _log(self) -> TrainingLog | None:
        """Return the log of the first process; the others write none."""
        if self.world.rank:
            return None
        curves = tensorboard_curves(self.out / EVENTS, self.step) if self.settings.tensorboard else None
        return TrainingLog(self.out / LOG, log_columns(self.data.objectives), self.step, curves)

    def train_step(self, batches: Iterator[tuple[TrainingBatch, Position]]) -> dict[str, float]:
        """Take one training step on the next ``accumulation`` batches; return its learning rate and losses in nats."""
        settings, world = self.settings, self.world
        self.parallel.train()
        # Every process prepares all batches of the step, in a hundredth of the time that the model takes, and works on
        # its own part of them. So it knows the totals by which sums must be divided, and neither the number of
        # processes nor that of batches changes what a step computes.
        step_batches = list(itertools.islice(batches, settings.accumulation))
        counts = [count_targets(batch) for batch, _ in step_batches]
        totals = np.maximum(1, np.sum(counts, axis=0))
        factor = linear_warmup_and_decay(self.step, int(settings.warmup * settings.steps), settings.steps)
        scale_rates(self.optimizer, factor)
        sums = torch.zeros(len(totals), dtype=torch.float64, device=self.device)
        local = range(world.rank, len(step_batches), world.size)
        for index in local:
            torch.manual_seed(_dropout_seed(settings.seed, self.step, index))
            sync = contextlib.nullcontext() if index == local[-1] else world.no_sync(self.parallel)
            with sync:
                losses = pretraining_losses(*self._logits_and_targets(step_batches[index][0]), overwrite=True)
                weights = (counts[index] / totals).tolist()
                weighted = [loss * weight for loss, weight in zip(losses.values(), weights, strict=True)]
                (sum(weighted) * world.size).backward()  # gradients are averaged over processes, but ours is a sum
            sums += torch.stack([loss.detach() for loss in weighted])
        nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return self.count_step(step_batches, world.all_reduce(sums).tolist(), factor)

    def _logits_and_targets(self, batch: TrainingBatch) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the model's logits (P, C) and the targets (P,) of each objective."""
        rows, positions = to_tensors(batch.rows, self.device), to_device(batch.positions, self.device)
        with autocast(self.device, self.settings.precision):
            logits = self.parallel(rows, positions)
        return logits, {name: to_device(targets, self.device) for name, targets in batch.targets.items()}

    @torch.no_grad()
    def losses_and_hits(self, batch: TrainingBatch) -> tuple[list[float], list[int]]:
        self.parallel.eval()
        logits, targets = self._logits_and_targets(batch)
        means = [float(loss) for loss in pretraining_losses(logits, targets).values()]
        return means, [int((logits[name].argmax(-1) == targets[name]).sum()) for name in targets]

    def save(self) -> None:
        """Write a checkpoint: the first process makes the folder, and each writes its part of the state into it."""
        if self.world.rank == 0:
            checkpoints.save(self.out / CHECKPOINTS, self.step, self._write, self.settings.keep)
        else:
            self._write_state(Path(self.world.broadcast()))
        self.world.barrier()
        self.saved = self.step

    def _write(self, folder: Path) -> None:
        """Fill the folder of a checkpoint. It is also a model folder, which ``transformers`` loads."""
        self._write_state(Path(self.world.broadcast(str(folder)))).save_pretrained(folder)
        self._save_tokenizer(self.data.shards.tokenizer(), folder)
        write_text(folder / _NUMBERS_FILE, json.dumps(self.numbers(), indent=1) + "\n")

    def _write_state(self, folder: Path) -> Any:
        """Write weights and moments, and return the whole model. Every process must call it."""
        save_state(folder / _STATE_FOLDER, self._state(), self.world)
        return self._full_model()

    def _state(self) -> dict[str, torch.Tensor]:
        """Return weights and moments, left sharded if they are; the moments are zero before the first step."""
        state = {}
        for name, parameter in self.model.named_parameters():
            moments = self.optimizer.state[parameter]
            if not moments:
                moments["step"] = torch.zeros((), device=self.device)
                moments |= {moment: torch.zeros_like(parameter) for moment in ("exp_avg", "exp_avg_sq")}
            state[f"weight.{name}"] = parameter.detach()
            state |= {f"{moment}.{name}": moments[moment] for moment in ("step", "exp_avg", "exp_avg_sq")}
        return state

    def _full_model(self) -> Any:
        """Return the model or, if it is sharded, a copy with all weights. Every process must call it."""
        if not self.world.sharded:
            return self.model
        model = type(self.model)(self.model.config)
        model.load_state_dict(gather(self.model.state_dict()))
        return model

    def resume(self) -> bool:
        """Load the newest undamaged checkpoint in ``out``. Return False if there is none yet.

        Raises:
            UserError: all checkpoints are damaged, or they belong to a run with other settings.
        """
        folder = checkpoints.newest(self.out / CHECKPOINTS)
        if folder is None:
            return False
        with checkpoints.restoring(folder):
            numbers = read_json(folder / _NUMBERS_FILE)
            check_same(numbers["run"], self.description())
            load_state(folder / _STATE_FOLDER, self._state(), self.world)
            self.restore_numbers(numbers)
        return True

    def finish(self, tokenizer: WordPiece) -> None:
        """Write the trained model and its tokenizer into ``out``. Every process must call it."""
        model = self._full_model()
        if self.world.rank == 0:
            self._save_tokenizer(tokenizer, self.out)
            model.save_pretrained(self.out)

    def _save_tokenizer(self, tokenizer: WordPiece, folder: Path) -> None:
        """Write the tokenizer into a model folder, with the longest text that the model takes."""
        tokenizer.model_max_length = self.model.config.max_position_embeddings
        tokenizer.save_pretrained(folder)


def _dropout_seed(seed: int, step: int, index: int) -> int:
    """Return a seed for dropout in one batch of one step; the same whichever process computes it."""
    return int(np.random.SeedSequence([seed, step, index, 1]).generate_state(1, np.uint64)[0]) >> 1
