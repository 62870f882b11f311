"""What a task is: how examples become inputs and targets, which loss it trains with, how logits become predictions.

A task knows no framework and no encoder. One fine-tuning loop serves every task.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from d2lbert.errors import UserError, unknown_name
from d2lbert.text import AnyEncoding, CompactEncoding, Encoding, Tokenizer

# The target of a token without a label: it does not count in the loss.
IGNORED = -100
NO_LABEL = "an example has no label: label every one, or leave it out"
# Texts that are encoded before they are made compact: as objects they take some hundred bytes a token.
_AT_ONCE = 1000


class Loss(enum.Enum):
    """What training minimizes. Each is a few lines in :mod:`d2lbert.torch.training.losses`."""

    LABEL = "cross-entropy of the label of a text; target: its index"
    SCORE = "squared error of the one output of a text; target: a number"
    TOKENS = "cross-entropy of the labels of tokens; target: (length,) indices, IGNORED where there is none"
    CHOICE = "cross-entropy of the text that is right, among those of an input; target: (texts,), 1 for it, else 0"
    SPAN = "mean cross-entropy of a span's first and last token; target: (2,) positions, IGNORED where there is none"
    SOFT = "distance to a teacher's softened probabilities, and cross-entropy of the label; target: a SoftTarget"
    SOFT_SPAN = (
        "distance to a teacher's softened probabilities of a span's ends, and cross-entropy; target: a SoftTarget"
    )
    LOGITS = "squared error of all logits of a text; target: (labels,), a teacher's logits"


class SoftTarget(NamedTuple):
    """What a teacher says of a text, and how much of it counts (:attr:`Loss.SOFT`, :attr:`Loss.SOFT_SPAN`).

    Fields:
        logits: (labels,), the teacher's; (length, 2) where it looks for a span.
        label: the index of the right label, IGNORED where nobody has given one; for a span (2,) positions.
        temperature: what the logits of teacher and student are divided by.
        weight: of the teacher in the loss, from 0 to 1; the label has the rest.
    """

    logits: np.ndarray
    label: Any
    temperature: float
    weight: float


@dataclass(frozen=True, slots=True)
class Input:
    """What a model reads at once: an example, or a part of a long one.

    Fields:
        encodings: one encoding; several where texts compete with each other, such as the choices of a question.
        target: what the model should predict, in the form that the task's loss takes; None where it is not known.
        example: the index of the example. A long example may be cut into several inputs.
        begin: the index of the first piece, where the input is a window of a longer text.
    """

    encodings: tuple[AnyEncoding, ...]
    target: Any
    example: int
    begin: int = 0


class Task(Protocol):
    """What the fine-tuning loop needs of a task. ``outputs`` has one array of logits for each input."""

    loss: Loss
    labels: tuple[str, ...]  # names of the outputs, in order

    def inputs(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return what the model reads, with targets where the examples have labels."""

    def score(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Compare the outputs with the labels. The first score chooses the best epoch unless another is named."""

    def predictions(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Turn the outputs into one prediction for each example, readable and ready for JSON."""

    def settle(self, model: Any, record: Mapping[str, float]) -> None:
        """Store in a trained model what its best epoch gave besides weights, such as a threshold; usually nothing."""
        return None

    def identity(self) -> dict[str, Any]:
        """Return what, besides loss and labels, must be the same when a run is resumed, as JSON values."""
        return {}


def longest_input(model: Any, otherwise: int = 128) -> int:
    """Return how many tokens of an input a model reads where the user names no number.

    Args:
        model: a head. It reads as many as in its training, and never more than it has positions.
        otherwise: of a model of which that is not known.
    """
    length = getattr(model, "trained_length", None) or otherwise
    config = getattr(model, "config", None)
    return length if config is None else min(length, int(config.max_position_embeddings))


def encode_texts(
    tokenizer: Tokenizer,
    firsts: Sequence[str],
    seconds: Sequence[str] | None,
    max_length: int,
    allow_empty: bool = False,
) -> list[CompactEncoding]:
    """Encode texts or pairs of texts; a warning counts those that had to be truncated.

    Args:
        firsts: N texts, or the first texts of N pairs.
        seconds: the second texts of the pairs; None for single texts.
        max_length: the longest encoding, in tokens, special tokens included.
        allow_empty: whether a text may hold nothing that the tokenizer keeps.

    Raises:
        UserError: a text is empty and may not be, or ``max_length`` leaves no room for a pair.
    """
    if seconds is not None and max_length < 5:
        raise UserError(
            f"max_length {max_length} is too small for a pair: [CLS], two [SEP] and two texts need 5 tokens"
        )
    compact, cut = [], 0
    for begin in range(0, len(firsts), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        pairs = None if seconds is None else seconds[part]
        for index, encoding in enumerate(tokenizer.encode_batch(firsts[part], pairs, max_length), start=begin):
            texts = [firsts[index]] if seconds is None else [firsts[index], seconds[index]]
            lasts = _last_pieces(encoding)
            if not allow_empty:
                _check_filled(texts, [encoding.special[last] for last in lasts], f"{index + 1:,} of {len(firsts):,}")
            if len(encoding) == max_length:
                ends = [encoding.offsets[last][1] for last in lasts]
                cut += any(end < len(text.rstrip()) for text, end in zip(texts, ends, strict=True))
            compact.append(CompactEncoding(encoding))
    if cut:
        remedy = "what follows is not read; a larger max_length reads more"
        warnings.warn(f"{cut:,} of {len(firsts):,} texts cut after {max_length} tokens: {remedy}", stacklevel=3)
    return compact


def _check_filled(texts: Sequence[str], empty: Sequence[bool], number: str) -> None:
    for text, nothing in zip(texts, empty, strict=True):
        if nothing:
            raise UserError(
                f"the text {text[:40]!r} (text {number}) holds nothing that the tokenizer keeps: give at least one "
                "word, or leave the example out"
            )


def _last_pieces(encoding: Encoding) -> list[int]:
    """Return the index of the last piece of each text, or of the [CLS] or [SEP] before it where a text is empty."""
    if 1 not in encoding.segment_ids:
        return [len(encoding) - 2]
    return [encoding.segment_ids.index(1) - 2, len(encoding) - 2]


def label_indices(labels: Sequence[str], targets: Sequence[str | None]) -> np.ndarray:
    """Return the index of each target among the labels, (N,) integers.

    Args:
        labels: all labels of the task, in the order of the logits.
        targets: N labels.

    Raises:
        UserError: a target is missing, or not among ``labels``.
    """
    indices = {label: index for index, label in enumerate(labels)}
    found = []
    for label in targets:
        if label is None:
            raise UserError(NO_LABEL)
        if label not in indices:
            raise unknown_name("label", str(label), labels)
        found.append(indices[label])
    return np.array(found, dtype=np.int64)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of logits (C,)."""
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()
