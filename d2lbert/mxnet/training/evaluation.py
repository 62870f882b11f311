"""Evaluate a fine-tuned model: its logits, predictions and scores.

Shape legend: N texts, B rows, L length of a row, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mxnet import Context, gluon

from d2lbert.data.batching import Batch
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.runtime import place, to_tensors
from d2lbert.mxnet.training.losses import by_token
from d2lbert.tasks.base import Input, Task
from d2lbert.text import AnyEncoding, Tokenizer
from d2lbert.training.inputs import by_input, check_lengths, inputs_to_predict, inputs_to_score, text_batches


def compute_outputs(
    model: gluon.Block,
    inputs: Sequence[Input],
    tokenizer: Tokenizer,
    device: Context | None = None,
    batch_size: int = 64,
) -> list[np.ndarray]:
    """Return the logits of each input, in the order of the inputs. Dropout is off outside of ``autograd.record``.

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
    check_lengths(model, inputs)
    device = place(model, device)
    outputs: list[np.ndarray] = []
    packed = getattr(model, "packed", True)  # an exported graph takes one text to a row
    for batch in text_batches(inputs, tokenizer, batch_size, packed):
        outputs += by_text(model(to_tensors(batch, device)), batch)
    return by_input(inputs, outputs)


def by_text(logits: Tensor, batch: Batch) -> list[np.ndarray]:
    """Return the logits of each text: (C,) from (N, C), or (length, C) from those of tokens, (B, L, C)."""
    if logits.ndim == 2:
        return list(logits.asnumpy())
    return np.split(by_token(logits, batch).asnumpy(), np.cumsum(batch.lengths)[:-1])


def compute_logits(
    model: gluon.Block,
    encodings: Sequence[AnyEncoding],
    tokenizer: Tokenizer,
    device: Context | None = None,
    batch_size: int = 64,
) -> np.ndarray:
    """Return the logits (N, C) of encoded texts, in their order, from a head that scores texts.

    The other arguments and the errors are those of :func:`compute_outputs`.
    """
    inputs = [Input((encoding,), None, index) for index, encoding in enumerate(encodings)]
    return np.stack(compute_outputs(model, inputs, tokenizer, device, batch_size))


def evaluate(
    model: gluon.Block,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int | None = None,
    device: Context | None = None,
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
    model: gluon.Block,
    task: Task,
    tokenizer: Tokenizer,
    examples: Sequence[Any],
    max_length: int | None = None,
    device: Context | None = None,
) -> list[dict[str, Any]]:
    """Return the model's prediction for each example, ready for JSON. Labels are not needed.

    The arguments are those of :func:`evaluate`.

    Raises:
        UserError: an example is a bare text, or a text is longer than the model takes.
    """
    inputs = inputs_to_predict(model, task, tokenizer, examples, max_length)
    return task.predictions(examples, inputs, compute_outputs(model, inputs, tokenizer, device))
