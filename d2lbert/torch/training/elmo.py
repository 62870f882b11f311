"""Train ELMo's language model: a plain loop that can be stopped and resumed."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from d2lbert.config.settings import Settings, setting
from d2lbert.data.elmo import SentenceBatches
from d2lbert.torch.elmo import BidirectionalLanguageModel
from d2lbert.torch.runtime import best_device, place
from d2lbert.torch.training.losses import check_weights
from d2lbert.torch.training.optim import descend, scale_rates
from d2lbert.torch.training.resuming import load_checkpoint, save_checkpoint
from d2lbert.training.inputs import check_finite
from d2lbert.training.progress import progress_bar
from d2lbert.training.run import fingerprint_of_examples
from d2lbert.training.schedules import linear_warmup_and_decay


@dataclass(frozen=True)
class LanguageModelTraining(Settings):
    """Settings of a run."""

    kind: ClassVar[str] = "training"

    epochs: int = setting(2, "passes over the sentences", above=0)
    learning_rate: float = setting(2e-3, "highest learning rate, after the warm-up", above=0)
    warmup: float = setting(0.02, "share of all steps during which the learning rate rises", at_least=0, at_most=1)
    clip: float = setting(5.0, "largest norm of the gradient", above=0)
    seed: int = setting(0, "of the order and of dropout", at_least=0, below=2**32)
    save_every: int = setting(500, "steps between two checkpoints", above=0)


def train_language_model(
    model: BidirectionalLanguageModel,
    batches: SentenceBatches,
    settings: LanguageModelTraining,
    folder: str | Path | None = None,
    progress: bool = True,
    device: torch.device | str | None = None,
) -> list[dict[str, float]]:
    """Train ``model`` and return one record every ``save_every`` steps and at the end.

    Args:
        model: the language model.
        batches: of the sentences to train on.
        folder: where checkpoints are saved. A run that was stopped continues from the newest, bit for bit. None saves
            nothing.
        progress: show a bar with the losses on standard error.
        device: where to train; by default :func:`~d2lbert.torch.runtime.best_device`. The model stays there.

    Returns:
        Records of step, words seen, seconds, and the mean loss per word in each direction since the last record, in
        nats. (With a sampled softmax the loss is that of the samples; :func:`perplexities` measures the full one.)

    Raises:
        UserError: the checkpoint belongs to another run, or the loss is not finite.
    """
    device = place(model, device or best_device())
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    plans = [batches.plan(settings.seed + epoch) for epoch in range(settings.epochs)]
    steps = sum(map(len, plans))
    warmup = int(settings.warmup * steps)
    torch.manual_seed(settings.seed)
    identity = {**asdict(settings), **_identity(model, batches)} if folder is not None else {}
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer}
    done, words, seconds, history = 0, 0, 0.0, []
    with load_checkpoint(folder, identity) if folder is not None else contextlib.nullcontext() as saved:
        if saved is not None:
            for name, part in parts.items():
                part.load_state_dict(saved[name])
            done, words, seconds, history = saved["progress"]
    model.train()
    sums, recent_words, began = [0.0, 0.0], 0, time.perf_counter() - seconds
    with progress_bar(steps, done, progress) as bar:
        for step, rows in enumerate((rows for plan in plans for rows in plan), start=1):
            if step <= done:
                continue
            batch = batches.batch(rows)
            losses = model(*(torch.from_numpy(array).to(device) for array in batch))
            scale_rates(optimizer, linear_warmup_and_decay(step - 1, warmup, steps))
            total = descend(torch.stack([loss.mean() for loss in losses]).sum(), model, optimizer, settings.clip)
            check_finite(float(total), step)
            sums = [before + float(loss.detach().sum()) for before, loss in zip(sums, losses, strict=True)]
            recent_words, words = recent_words + len(losses[0]), words + len(losses[0])
            bar.update()
            if step % settings.save_every == 0 or step == steps:
                seconds = time.perf_counter() - began
                record = {"step": step, "words": words, "seconds": seconds}
                history.append(record | {"forward": sums[0] / recent_words, "backward": sums[1] / recent_words})
                bar.set_postfix_str(f"loss {history[-1]['forward']:.3f} {history[-1]['backward']:.3f}", refresh=False)
                sums, recent_words = [0.0, 0.0], 0
                check_weights(model, step, folder)
                if folder is not None:
                    state = {name: part.state_dict() for name, part in parts.items()}
                    save_checkpoint(folder, step, identity, state | {"progress": [step, words, seconds, history]})
    return history


def _identity(model: BidirectionalLanguageModel, batches: SentenceBatches) -> dict[str, Any]:
    """Return what, besides the settings, must be the same when a run is resumed."""
    return {
        **asdict(model.elmo.config),
        "samples": model.samples,
        "sentences": fingerprint_of_examples(batches.sentences),
        "vocabulary": fingerprint_of_examples(batches.vocabulary.words),
        "words_per_batch": batches.words_per_batch,
    }


@torch.inference_mode()
def perplexities(model: BidirectionalLanguageModel, batches: SentenceBatches) -> tuple[float, float]:
    """Return the perplexity of the full softmax, forward and backward: exp of the mean loss per word."""
    device = next(model.parameters()).device
    model.eval()
    sums, words = [0.0, 0.0], 0
    for batch in batches.epoch(None):
        losses = model(*(torch.from_numpy(array).to(device) for array in batch))
        sums = [total + float(loss.sum()) for total, loss in zip(sums, losses, strict=True)]
        words += len(losses[0])
    return math.exp(sums[0] / words), math.exp(sums[1] / words)
