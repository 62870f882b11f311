"""Fine-tuning: one plain loop for every task.

Shape legend: N texts of a batch, C labels.
"""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from tqdm import tqdm

from d2lbert.data.batching import Batch, pack, pad
from d2lbert.errors import UserError
from d2lbert.tasks.base import Task
from d2lbert.text import Encoding, WordPiece
from d2lbert.torch.optim import decay_groups, linear_warmup_and_decay
from d2lbert.torch.runtime import seed_everything, to_tensors


@dataclass(frozen=True)
class Training:
    """Settings of a fine-tuning run. The defaults suit a 6-layer encoder and some thousand sentences.

    Fields:
        epochs: passes over the training examples.
        batch_size: texts for one step.
        learning_rate: its highest value, after the warm-up.
        warmup: share of all steps during which the learning rate rises.
        weight_decay: of matrices; biases and LayerNorm have none.
        clip: the largest norm of the gradient.
        max_length: the longest text, in tokens; the rest is cut off.
        seed: of the order, of dropout and of the head's first weights.
        packed: several texts in a row instead of padding.
    """

    epochs: int = 5
    batch_size: int = 32
    learning_rate: float = 1e-4
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    max_length: int = 128
    seed: int = 0
    packed: bool = True

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:  # false for nan, too
                raise UserError(f"training: {name} is {getattr(self, name)}; it must be above 0")
        if not 0 <= self.warmup <= 1:
            raise UserError(f"training: warmup is {self.warmup}; it is a share of the steps, from 0 to 1")
        if self.max_length < 3:
            raise UserError(f"training: max_length is {self.max_length}; [CLS], a token and [SEP] need 3")
        if not 0 <= self.seed < 2**32:
            raise UserError(f"training: seed is {self.seed}; it must be from 0 to {2**32 - 1}")


def fine_tune(
    model: nn.Module,
    task: Task,
    tokenizer: WordPiece,
    train: Sequence[Any],
    dev: Sequence[Any],
    settings: Training,
    device: torch.device | str = "cpu",
    progress: bool = True,
) -> list[dict[str, float]]:
    """Train ``model`` on ``train``, score it on ``dev`` after every epoch, and leave it with its best weights.

    Args:
        model: returns logits (N, C) for the tensors of a batch.
        progress: show a bar with tokens a second on standard error.

    Returns:
        One record for each epoch: mean training loss, seconds, tokens a second, and the scores on ``dev``. The best
        epoch is the one with the highest first score.
    """
    encodings, targets = task.encode(train, tokenizer, settings.max_length), task.targets(train)
    dev_encodings, dev_targets = task.encode(dev, tokenizer, settings.max_length), task.targets(dev)
    seed_everything(settings.seed)
    order = np.random.default_rng(settings.seed)
    model.to(device)
    groups = decay_groups(model, settings.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)  # one pass over the memory, not ten
    steps = settings.epochs * -(-len(train) // settings.batch_size)
    warmup = int(settings.warmup * steps)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: linear_warmup_and_decay(step, warmup, steps))
    history: list[dict[str, float]] = []
    best, best_score = copy.deepcopy(model.state_dict()), -np.inf
    with tqdm(total=steps, disable=not progress, file=sys.stderr, unit="step", mininterval=1.0) as bar:
        for epoch in range(1, settings.epochs + 1):
            began, loss_sum, tokens = time.perf_counter(), 0.0, 0
            model.train()
            shuffled = order.permutation(len(train))
            for start in range(0, len(train), settings.batch_size):
                chosen = shuffled[start : start + settings.batch_size]
                batch = _arrange([encodings[index] for index in chosen], settings.packed, tokenizer)
                loss = _step(model, batch, torch.from_numpy(targets[chosen]).to(device), optimizer, settings.clip)
                schedule.step()
                loss_sum += loss * len(chosen)
                tokens += batch.num_tokens
                bar.update()
                rate = tokens / (time.perf_counter() - began)
                bar.set_postfix_str(f"epoch {epoch}, loss {loss:.3f}, {rate:,.0f} tokens/s", refresh=False)
            seconds = time.perf_counter() - began
            scores = task.metrics(dev_targets, compute_logits(model, dev_encodings, tokenizer, device))
            record = {"epoch": epoch, "loss": loss_sum / len(train), "seconds": seconds}
            history.append({**record, "tokens_per_second": tokens / seconds, **scores})
            first = next(iter(scores.values()))
            if first > best_score:
                best, best_score = copy.deepcopy(model.state_dict()), first
    model.load_state_dict(best)
    model.eval()
    return history


def _step(
    model: nn.Module, batch: Batch, targets: torch.Tensor, optimizer: torch.optim.Optimizer, clip: float
) -> float:
    """Take one step of gradient descent and return the loss."""
    logits = model(**to_tensors(batch, targets.device))  # (N, C)
    loss = functional.cross_entropy(logits, targets)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    value = float(loss.detach())
    if not np.isfinite(value):
        raise UserError(f"the loss became {value}: lower the learning rate")
    return value


@torch.inference_mode()
def compute_logits(
    model: nn.Module,
    encodings: Sequence[Encoding],
    tokenizer: WordPiece,
    device: torch.device | str = "cpu",
    batch_size: int = 64,
) -> np.ndarray:
    """Return the logits (N, C) of encoded texts, in their order."""
    model.eval()
    rows = []
    for start in range(0, len(encodings), batch_size):
        batch = _arrange(encodings[start : start + batch_size], True, tokenizer)
        rows.append(model(**to_tensors(batch, device)).float().cpu().numpy())
    return np.concatenate(rows)


def predict(
    model: nn.Module,
    task: Task,
    tokenizer: WordPiece,
    examples: Sequence[Any],
    max_length: int = 128,
    device: torch.device | str = "cpu",
) -> list[dict[str, Any]]:
    """Return the model's answer for each example, in the form of the task's ``describe``."""
    logits = compute_logits(model, task.encode(examples, tokenizer, max_length), tokenizer, device)
    return [task.describe(row) for row in logits]


def _arrange(encodings: Sequence[Encoding], packed: bool, tokenizer: WordPiece) -> Batch:
    pad_id = tokenizer.token_to_id["[PAD]"]
    return pack(encodings, pad_id=pad_id) if packed else pad(encodings, pad_id)
