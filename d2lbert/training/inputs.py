"""What goes into a model in training and evaluation, checked and in batches; and what comes out.

Shape legend: N texts of a batch, B rows, L length of a row, T tokens of all texts, C labels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.data.batching import Batch, pack, pad
from d2lbert.errors import UserError
from d2lbert.storage.checkpoints import newest
from d2lbert.tasks.base import IGNORED, Input, Loss, Task
from d2lbert.text import AnyEncoding, Tokenizer


def collate(encodings: Sequence[AnyEncoding], tokenizer: Tokenizer, packed: bool = True) -> Batch:
    """Return a batch of encoded texts: packed, several texts to a row, or padded, one text to a row."""
    pad_id = tokenizer.pad_id
    return pack(encodings, pad_id=pad_id) if packed else pad(encodings, pad_id)


def text_batches(
    inputs: Sequence[Input], tokenizer: Tokenizer, batch_size: int, packed: bool = True
) -> Iterator[Batch]:
    """Yield the texts of all inputs, in their order, in batches of ``batch_size`` texts."""
    texts = [encoding for item in inputs for encoding in item.encodings]
    for start in range(0, len(texts), batch_size):
        yield collate(texts[start : start + batch_size], tokenizer, packed)


def by_input(inputs: Sequence[Input], outputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the logits of each input from those of each text: where it has several texts, theirs are concatenated.

    Raises:
        UserError: a logit is NaN or infinite.
    """
    remaining = iter(outputs)
    logits = [np.concatenate([next(remaining) for _ in item.encodings]) for item in inputs]
    check_outputs(inputs, logits)
    return logits


def inputs_to_predict(
    model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int | None
) -> list[Input]:
    """Return what the model reads of examples that are not trained on.

    Args:
        max_length: the most tokens of an input; None for as many as in the model's training, or 128 where that is not
            known.

    Raises:
        UserError: an example is a bare text.
    """
    check_examples(examples)
    if max_length is None:
        max_length = getattr(model, "trained_length", None) or 128
    return task.inputs(examples, tokenizer, max_length)


def inputs_to_score(
    model: Any, task: Task, tokenizer: Tokenizer, examples: Sequence[Any], max_length: int | None
) -> list[Input]:
    """Return what the model reads of examples whose labels it is compared with; arguments as above.

    Raises:
        UserError: there are no examples, one is a bare text or has no label, or a package that the scores need is not
            installed.
    """
    if not examples:
        raise UserError("no examples to score: give at least one")
    inputs = inputs_to_predict(model, task, tokenizer, examples, max_length)
    scores_of_zeros(task, examples, inputs)  # what would end the scoring ends it before anything is computed
    return inputs


def scores_of_zeros(task: Task, examples: Sequence[Any], inputs: Sequence[Input]) -> dict[str, float]:
    """Return the scores of a model whose logits are all zero: their names are those of every model's.

    Raises:
        UserError: as for the scores of the task.
    """
    count = len(task.labels)
    logits = {
        Loss.CHOICE: lambda item: np.zeros(len(item.encodings)),
        Loss.TOKENS: lambda item: np.zeros((len(item.encodings[0]), count)),
        Loss.SPAN: lambda item: np.zeros((len(item.encodings[0]), count)),
        Loss.SOFT_SPAN: lambda item: np.zeros((len(item.encodings[0]), count)),
    }.get(task.loss, lambda item: np.zeros(count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all predictions are the same is no surprise
        return task.score(examples, inputs, [logits(item) for item in inputs])


def token_positions(batch: Batch) -> np.ndarray:
    """Return where the tokens of all texts lie, text after text, (T,): row times L plus column."""
    positions = []
    for (row, column), length in zip(batch.starts, batch.lengths, strict=True):
        begin = row * batch.token_ids.shape[1] + column
        positions.append(np.arange(begin, begin + length))
    return np.concatenate(positions)


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


def check_inputs(model: Any, train: Sequence[Input], dev: Sequence[Input]) -> None:
    """Refuse inputs that would stop the training midway or at its end.

    Raises:
        UserError: there are none, one to train on has no label, or a text is longer than the model takes.
    """
    for purpose, inputs in (("train on", train), ("choose the epoch on", dev)):
        if not inputs:
            raise UserError(f"no examples to {purpose}: give at least one")
    if any(item.target is None for item in train):
        raise UserError("an example to train on has no label: label every one, or leave it out")
    check_lengths(model, [*train, *dev])


def check_lengths(model: Any, inputs: Sequence[Input]) -> None:
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


def check_finite(loss: float, step: int, checkpoint: str | Path | None = None) -> None:
    """Stop a run whose loss is NaN or infinite: every weight would become so, too.

    Args:
        step: of this loss, counted from 1.
        checkpoint: the folder of the run's checkpoints, of which the message names the last good one.

    Raises:
        UserError: the loss is not finite.
    """
    if not math.isfinite(loss):
        raise UserError(f"the loss became {loss} at step {step}: lower the learning rate{last_good(checkpoint)}")


def weight_error(name: str, step: int, checkpoint: str | Path | None = None) -> UserError:
    """Return the error that stops a run whose last step has made a weight NaN or infinite.

    Args:
        name: of the weight.
        step, checkpoint: as for :func:`check_finite`.
    """
    return UserError(f"{name} became NaN or infinite at step {step}: lower the learning rate{last_good(checkpoint)}")


def last_good(checkpoint: str | Path | None) -> str:
    """Return the end of a message that names the newest checkpoint; nothing where there is none."""
    path = None if checkpoint is None else newest(Path(checkpoint))
    return "" if path is None else f"; the last good checkpoint is {path}"


def label_weights(task: Task, inputs: Sequence[Input]) -> np.ndarray:
    """Return the weight of each label (C,), inversely proportional to its frequency.

    The weights have a mean of 1 over the training targets if every label occurs. Otherwise the mean is the fraction of
    labels that occur.

    Raises:
        UserError: the task has no labels.
    """
    if task.loss not in (Loss.LABEL, Loss.TOKENS):
        raise UserError("training: balanced weighs labels, but this task has none; leave it off")
    targets = np.hstack([item.target for item in inputs])
    counts = np.bincount(targets[targets != IGNORED], minlength=len(task.labels))
    return counts.sum() / (len(task.labels) * np.maximum(counts, 1))
