"""Evaluate a fine-tuned model: its logits, predictions and scores.

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
from d2lbert.text import AnyEncoding, Tokenizer
from d2lbert.torch.runtime import place, to_tensors
from d2lbert.torch.training.losses import by_token


@torch.inference_mode()
def compute_outputs(
    model: nn.Module,
    inputs: Sequence[Input],
    tokenizer: Tokenizer,
    device: torch.device | str | None = None,
    batch_size: int = 64,
) -> list[np.ndarray]:
    """Return the logits of each input, in the order of the inputs.

    Args:
        model: a head.
        inputs: from :meth:`d2lbert.tasks.base.Task.inputs`.
        device: where to compute; by default where the model is. The model is moved there.
        batch_size: texts in a batch.

    Returns:
        For each input (C,) if the head scores texts, (length, C) if it scores tokens. Where an input has several texts,
        their logits are concatenated.

    Raises:
        UserError: a text is longer than the model takes, or a logit is NaN or infinite.
    """
    model.eval()
    check_lengths(model, inputs)
    device = place(model, device)
    packed = getattr(model, "packed", True)  # an exported graph may take one text to a row alone
    texts = [encoding for item in inputs for encoding in item.encodings]
    outputs: list[np.ndarray] = []
    for start in range(0, len(texts), batch_size):
        batch = collate(texts[start : start + batch_size], tokenizer, packed)
        outputs += by_text(model(to_tensors(batch, device)), batch)
    remaining = iter(outputs)
    logits_of_inputs = [np.concatenate([next(remaining) for _ in item.encodings]) for item in inputs]
    check_outputs(inputs, logits_of_inputs)
    return logits_of_inputs


def by_text(logits: torch.Tensor, batch: Batch) -> list[np.ndarray]:
    """Return the logits of each text: (C,) from (N, C), or (length, C) from those of tokens, (B, L, C)."""
    logits = logits.float()
    if logits.dim() == 2:
        return list(logits.cpu().numpy())
    return np.split(by_token(logits, batch).cpu().numpy(), np.cumsum(batch.lengths)[:-1])


def check_outputs(inputs: Sequence[Input], outputs: Sequence[np.ndarray]) -> None:
    """Refuse logits that are not finite: a score or a probability of them would look like an answer.

    Raises:
        UserError: there is such a logit; the message names the first example that has one, counted from 0.
    """
    for item, logits in zip(inputs, outputs, strict=True):
        if not np.isfinite(logits).all():
            raise UserError(
                f"the model's outputs for example {item.example} are NaN or infinite and mean nothing: its training "
                "went wrong; train it again with a lower learning rate, or use another model"
            )


def compute_logits(
    model: nn.Module,
    encodings: Sequence[AnyEncoding],
    tokenizer: Tokenizer,
    device: torch.device | str | None = None,
    batch_size: int = 64,
) -> np.ndarray:
    """Return the logits (N, C) of encoded texts, in their order, from a head that scores texts.

    The other arguments and the errors are those of :func:`compute_outputs`.
    """
    inputs = [Input((encoding,), None, index) for index, encoding in enumerate(encodings)]
    return np.stack(compute_outputs(model, inputs, tokenizer, device, batch_size))


def evaluate(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int = 128,
    device: torch.device | str | None = None,
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the scores of a model on labelled examples, and its prediction for each.

    Args:
        model: a head for the task.
        examples: with labels, of the type that the task takes.
        max_length: the most tokens of an input; the task cuts longer texts, or splits them into windows.
        device: where to compute; by default where the model is. The model is moved there.

    Raises:
        UserError: there are no examples, one is a bare text or has no label, or a text is longer than the model takes.
    """
    if not examples:
        raise UserError("no examples to score: give at least one")
    check_examples(examples)
    inputs = task.inputs(examples, tokenizer, max_length)
    outputs = compute_outputs(model, inputs, tokenizer, device)
    return task.score(examples, inputs, outputs), task.predictions(examples, inputs, outputs)


def predict(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int = 128,
    device: torch.device | str | None = None,
) -> list[dict[str, Any]]:
    """Return the model's prediction for each example, ready for JSON. Labels are not needed.

    The arguments are those of :func:`evaluate`.

    Raises:
        UserError: an example is a bare text, or a text is longer than the model takes.
    """
    check_examples(examples)
    inputs = task.inputs(examples, tokenizer, max_length)
    return task.predictions(examples, inputs, compute_outputs(model, inputs, tokenizer, device))


def collate(encodings: Sequence[AnyEncoding], tokenizer: Tokenizer, packed: bool = True) -> Batch:
    """Return a batch of encoded texts: packed, several texts to a row, or padded, one text to a row."""
    pad_id = tokenizer.pad_id
    return pack(encodings, pad_id=pad_id) if packed else pad(encodings, pad_id)


def check_examples(examples: Sequence[Any]) -> None:
    """Refuse bare texts, tuples and dictionaries where examples are meant.

    Raises:
        UserError: there is one.
    """
    for example in examples:
        if isinstance(example, str | bytes | tuple | list | dict):
            raise UserError(
                f"{str(example)[:40]!r} is a {type(example).__name__}, not an example: write one of d2lbert.data, such "
                "as Sentence(text), Pair(first, second) or TaggedSentence(words)"
            )


def check_lengths(model: nn.Module, inputs: Sequence[Input]) -> None:
    """Refuse texts that are longer than the encoder's table of positions: packed rows would index past its end.

    Raises:
        UserError: there is such a text.
    """
    config = getattr(model, "config", None)
    longest = max((len(encoding) for item in inputs for encoding in item.encodings), default=0)
    if config is not None and longest > config.max_position_embeddings:
        positions = config.max_position_embeddings
        raise UserError(
            f"a text of {longest} tokens, but the model has {positions} positions: give a smaller max_length"
        )
