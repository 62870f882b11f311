"""What a task is: how examples become inputs and targets, which loss they ask for, and how logits become answers.

A task knows no framework and no encoder. One fine-tuning loop serves every task.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from d2lbert.errors import UserError, unknown_name
from d2lbert.text import Encoding, Tokenizer

# The target of a token that has no label: it takes no part in the loss.
IGNORED = -100


class Loss(enum.Enum):
    """What the loop makes small. Each is a few lines in :mod:`d2lbert.torch.training.losses`."""

    LABEL = "cross-entropy of the label of a text; target: its index"
    SCORE = "squared error of the one output of a text; target: a number"
    TOKENS = "cross-entropy of the labels of tokens; target: (length,) indices, IGNORED where there is none"
    CHOICE = "cross-entropy of the text that is right, among those of an input; target: (texts,), 1 for it, else 0"
    SPAN = "mean cross-entropy of a span's first and last token; target: (2,) places, IGNORED where there is none"


@dataclass(frozen=True, slots=True)
class Input:
    """What a model sees of an example at one time.

    Fields:
        encodings: one, or, where texts compete with each other, one for each.
        target: what the model should answer, in the form that the task's loss wants; None where it is not known.
        example: the place of the example that it is of. A long example may be cut into several inputs.
        begin: of a text cut into windows, the piece at which this one begins.
    """

    encodings: tuple[Encoding, ...]
    target: Any
    example: int
    begin: int = 0


class Task(Protocol):
    """What the fine-tuning loop asks of a task. ``outputs`` has one array of logits for each input."""

    loss: Loss
    labels: tuple[str, ...]  # names of the outputs, in their order

    def inputs(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return what the model sees, with targets where the examples have them."""

    def score(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Compare the outputs with what is right. The first score chooses the best epoch unless told otherwise."""

    def answers(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Turn the outputs into one answer an example, for a reader and for JSON."""

    def settle(self, model: Any, record: Mapping[str, float]) -> None:
        """Give a trained model what its best epoch has found beside weights, such as a threshold; mostly nothing."""
        return None


def encode_texts(
    tokenizer: Tokenizer, firsts: Sequence[str], seconds: Sequence[str] | None, max_length: int
) -> list[Encoding]:
    """Encode texts or pairs of texts; those that had to be cut are counted in a warning.

    Raises:
        UserError: nothing of a text is left, because it holds only signs that the tokenizer drops.
    """
    if seconds is not None and max_length < 5:
        raise UserError(
            f"max_length {max_length} is too small for a pair: [CLS], two [SEP] and two texts need 5 tokens"
        )
    encodings = tokenizer.encode_batch(firsts, seconds, max_length=max_length)
    cut = 0
    for place, encoding in enumerate(encodings):
        texts = [firsts[place]] if seconds is None else [firsts[place], seconds[place]]
        lasts = _last_pieces(encoding)
        for text, last in zip(texts, lasts, strict=True):
            if encoding.special[last]:
                raise UserError(
                    f"the text {text[:40]!r} holds nothing that the tokenizer keeps: give at least one word"
                )
        if len(encoding) == max_length:
            ends = [encoding.offsets[last][1] for last in lasts]
            cut += any(end < len(text.rstrip()) for text, end in zip(texts, ends, strict=True))
    if cut:
        warnings.warn(f"{cut:,} of {len(firsts):,} texts cut after {max_length} tokens", stacklevel=3)
    return encodings


def _last_pieces(encoding: Encoding) -> list[int]:
    """Return the place of the last piece of each text, or of the [CLS] or [SEP] before it where a text is empty."""
    if 1 not in encoding.segment_ids:
        return [len(encoding) - 2]
    return [encoding.segment_ids.index(1) - 2, len(encoding) - 2]


def places_of(labels: Sequence[str], found: Sequence[str | None]) -> np.ndarray:
    """Return the index of each label, (N,) integers.

    Raises:
        UserError: a label that is not among ``labels``.
    """
    places = {label: index for index, label in enumerate(labels)}
    for label in found:
        if label not in places:
            raise unknown_name("label", str(label), labels)
    return np.array([places[label] for label in found if label is not None], dtype=np.int64)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of logits (C,)."""
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()
