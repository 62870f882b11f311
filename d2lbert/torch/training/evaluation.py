"""What a fine-tuned model says of examples: logits, answers and scores.

Shape legend: N texts, B rows, L length of a row, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from d2lbert.data.batching import Batch, pack, pad
from d2lbert.errors import UserError
from d2lbert.tasks.base import Input, Task
from d2lbert.text import Encoding, Tokenizer
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.losses import by_token


@torch.inference_mode()
def compute_outputs(
    model: nn.Module,
    inputs: Sequence[Input],
    tokenizer: Tokenizer,
    device: torch.device | str = "cpu",
    batch_size: int = 64,
) -> list[np.ndarray]:
    """Return the logits of each input, in their order: (C,) for texts, (length, C) for tokens.

    Where an input has several texts, their logits follow each other.
    """
    model.eval()
    check_lengths(model, inputs)
    texts = [encoding for one in inputs for encoding in one.encodings]
    outputs: list[np.ndarray] = []
    for start in range(0, len(texts), batch_size):
        batch = arrange(texts[start : start + batch_size], tokenizer)
        logits = model(to_tensors(batch, device)).float()
        if logits.dim() == 2:  # (N, C)
            outputs += list(logits.cpu().numpy())
        else:  # (B, L, C)
            outputs += np.split(by_token(logits, batch).cpu().numpy(), np.cumsum(batch.lengths)[:-1])
    found = iter(outputs)
    return [np.concatenate([next(found) for _ in one.encodings]) for one in inputs]


def compute_logits(
    model: nn.Module,
    encodings: Sequence[Encoding],
    tokenizer: Tokenizer,
    device: torch.device | str = "cpu",
    batch_size: int = 64,
) -> np.ndarray:
    """Return the logits (N, C) of encoded texts, in their order, from a head with one row of logits a text."""
    inputs = [Input((encoding,), None, place) for place, encoding in enumerate(encodings)]
    return np.stack(compute_outputs(model, inputs, tokenizer, device, batch_size))


def evaluate(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int = 128,
    device: torch.device | str = "cpu",
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the scores of labelled examples, and the model's answer to each."""
    if not examples:
        raise UserError("no examples to score: give at least one")
    inputs = task.inputs(examples, tokenizer, max_length)
    outputs = compute_outputs(model, inputs, tokenizer, device)
    return task.score(examples, inputs, outputs), task.predictions(examples, inputs, outputs)


def predict(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int = 128,
    device: torch.device | str = "cpu",
) -> list[dict[str, Any]]:
    """Return the model's answer for each example."""
    inputs = task.inputs(examples, tokenizer, max_length)
    return task.predictions(examples, inputs, compute_outputs(model, inputs, tokenizer, device))


def arrange(encodings: Sequence[Encoding], tokenizer: Tokenizer, packed: bool = True) -> Batch:
    """Return a batch of encoded texts, several in a row or one."""
    pad_id = tokenizer.pad_id
    return pack(encodings, pad_id=pad_id) if packed else pad(encodings, pad_id)


def check_lengths(model: nn.Module, inputs: Sequence[Input]) -> None:
    """Refuse texts that are longer than the encoder's positions: packed rows would take what lies behind the table."""
    encoder = getattr(model, "bert", None)
    longest = max((len(encoding) for one in inputs for encoding in one.encodings), default=0)
    if encoder is not None and longest > encoder.config.max_position_embeddings:
        positions = encoder.config.max_position_embeddings
        raise UserError(
            f"a text of {longest} tokens, but the model has {positions} positions: give a smaller max_length"
        )
