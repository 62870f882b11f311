"""One text, one label out of a fixed set."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from d2lbert import metrics
from d2lbert.data.examples import Sentence
from d2lbert.errors import UserError, unknown_name
from d2lbert.text import Encoding, WordPiece


class Classification:
    """Classify a sentence. The order of ``labels`` is the order of the logits."""

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels = tuple(labels)
        if len(set(self.labels)) < 2:
            raise UserError(f"classification needs two labels, but there is only {self.labels}: check the label column")

    @classmethod
    def of(cls, examples: Sequence[Sentence]) -> Classification:
        """Return the task whose labels are those of the examples, in alphabetical order."""
        return cls(sorted({example.label for example in examples if example.label is not None}))

    def encode(self, examples: Sequence[Sentence], tokenizer: WordPiece, max_length: int) -> list[Encoding]:
        """Return [CLS] text [SEP] for each example; texts that had to be cut are counted in a warning.

        Raises:
            UserError: nothing of a text is left, because it holds only signs that the tokenizer drops.
        """
        texts = [example.text for example in examples]
        encodings = tokenizer.encode_batch(texts, max_length=max_length)
        cut = 0
        for text, encoding in zip(texts, encodings, strict=True):
            if len(encoding) == 2:
                raise UserError(
                    f"the text {text[:40]!r} holds nothing that the tokenizer keeps: give at least one word"
                )
            cut += len(encoding) == max_length and encoding.offsets[-2][1] < len(text.rstrip())
        if cut:
            warnings.warn(f"{cut:,} of {len(texts):,} texts cut after {max_length} tokens", stacklevel=2)
        return encodings

    def targets(self, examples: Sequence[Sentence]) -> np.ndarray:
        """Return the index of each example's label, (N,)."""
        places = {label: index for index, label in enumerate(self.labels)}
        for example in examples:
            if example.label not in places:
                raise unknown_name("label", str(example.label), self.labels)
        return np.array([places[example.label] for example in examples if example.label is not None], dtype=np.int64)

    def metrics(self, targets: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """Return accuracy, macro F1 and Matthews' correlation."""
        return metrics.classification(targets, logits.argmax(axis=1))

    def describe(self, logits: np.ndarray) -> dict[str, Any]:
        """Return the label and the probability of every label."""
        exponentials = np.exp(logits - logits.max())
        probabilities = exponentials / exponentials.sum()
        return {
            "label": self.labels[int(logits.argmax())],
            "probabilities": {label: float(p) for label, p in zip(self.labels, probabilities, strict=True)},
        }
