"""Evaluate a fine-tuned model: its logits, predictions and scores.

Shape legend: N texts, B rows, L length of a row, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from d2lbert.data.batching import Batch
from d2lbert.tasks.base import Input, Task
from d2lbert.text import AnyEncoding, Tokenizer
from d2lbert.torch.runtime import place, to_tensors
from d2lbert.torch.training.losses import by_token
from d2lbert.training.inputs import by_input, inputs_to_predict, inputs_to_score, text_batches
from d2lbert.training.inputs import check_examples as check_examples  # their names for others
from d2lbert.training.inputs import check_lengths as check_lengths
from d2lbert.training.inputs import check_outputs as check_outputs
from d2lbert.training.inputs import collate as collate


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
    outputs: list[np.ndarray] = []
    for batch in text_batches(inputs, tokenizer, batch_size, packed):
        outputs += by_text(model(to_tensors(batch, device)), batch)
    return by_input(inputs, outputs)


def by_text(logits: torch.Tensor, batch: Batch) -> list[np.ndarray]:
    """Return the logits of each text: (C,) from (N, C), or (length, C) from those of tokens, (B, L, C)."""
    logits = logits.float()
    if logits.dim() == 2:
        return list(logits.cpu().numpy())
    return np.split(by_token(logits, batch).cpu().numpy(), np.cumsum(batch.lengths)[:-1])


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
    max_length: int | None = None,
    device: torch.device | str | None = None,
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the scores of a model on labelled examples, and its prediction for each.

    Args:
        model: a head for the task.
        examples: with labels, of the type that the task takes.
        max_length: the most tokens of an input; the task cuts longer texts, or splits them into windows. By default
            as many as in the model's training, where that is known, else 128.
        device: where to compute; by default where the model is. The model is moved there.

    Raises:
        UserError: there are no examples, one is a bare text or has no label, or a text is longer than the model takes.
    """
    inputs = inputs_to_score(model, task, tokenizer, examples, max_length)
    outputs = compute_outputs(model, inputs, tokenizer, device)
    return task.score(examples, inputs, outputs), task.predictions(examples, inputs, outputs)


def predict(
    model: nn.Module,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int | None = None,
    device: torch.device | str | None = None,
) -> list[dict[str, Any]]:
    """Return the model's prediction for each example, ready for JSON. Labels are not needed.

    The arguments are those of :func:`evaluate`.

    Raises:
        UserError: an example is a bare text, or a text is longer than the model takes.
    """
    inputs = inputs_to_predict(model, task, tokenizer, examples, max_length)
    return task.predictions(examples, inputs, compute_outputs(model, inputs, tokenizer, device))
