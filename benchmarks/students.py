"""Train a student on what its teacher says of general text: a plain loop, which goes on where it was stopped."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from d2lbert.torch.training.optim import decay_groups, descend, linear_warmup_and_decay, scale_rates

WEIGHT_DECAY, WARMUP, CLIP = 0.01, 0.05, 1.0
SAVE_EVERY, MEAN_OF = 200, 100  # steps


def learn(
    student: nn.Module,
    batches: Iterator[Any],
    loss_of: Callable[[Any], Tensor],
    steps: int,
    learning_rate: float,
    checkpoint: Path | None = None,
) -> list[float]:
    """Train a student in place.

    Args:
        batches: the same ones in the same order at each call; those that a checkpoint has seen are passed over.
        loss_of: batch -> a loss, a scalar.
        learning_rate: the highest; it rises to it in the first twentieth, and falls almost to zero.
        checkpoint: a file that is written from time to time and read at the beginning; it belongs to one run.

    Returns:
        The loss, the mean of every ``MEAN_OF`` steps.
    """
    optimizer = torch.optim.AdamW(decay_groups(student, WEIGHT_DECAY), lr=learning_rate, eps=1e-6, fused=True)
    losses: list[float] = []
    if checkpoint is not None and checkpoint.is_file():
        state = torch.load(checkpoint)
        student.load_state_dict(state["student"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    for batch in itertools.islice(batches, len(losses), steps):
        scale_rates(optimizer, linear_warmup_and_decay(len(losses), int(WARMUP * steps), steps))
        losses.append(float(descend(loss_of(batch), student, optimizer, CLIP)))
        if checkpoint is not None and len(losses) % SAVE_EVERY == 0:
            save(checkpoint, {"student": student.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses})
    return [
        sum(part) / len(part) for part in (losses[begin : begin + MEAN_OF] for begin in range(0, len(losses), MEAN_OF))
    ]


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a file of tensors whole, or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)
