"""One text, or a pair of texts, gets one label from a fixed set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from d2lbert import metrics
from d2lbert.errors import UserError
from d2lbert.tasks.base import Input, Loss, Task, encode_texts, label_indices, softmax
from d2lbert.text import CompactEncoding, Tokenizer


class Classification(Task):
    """Classify a sentence. The order of ``labels`` is the order of the logits."""

    loss = Loss.LABEL

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels = tuple(labels)
        if len(set(self.labels)) < 2:
            raise UserError(f"classification needs two labels, but there is only {self.labels}: check the label column")

    @classmethod
    def of(cls, examples: Sequence[Any]) -> Classification:
        """Return the task whose labels are those of the examples, in alphabetical order."""
        return cls(sorted({example.label for example in examples if example.label is not None}))

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[CompactEncoding]:
        """Return [CLS] text [SEP] for each example; a warning counts the texts that had to be truncated.

        Raises:
            UserError: a text holds only characters that the tokenizer drops.
        """
        return encode_texts(tokenizer, [example.text for example in examples], None, max_length)

    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        """Return the index of each example's label, (N,).

        Raises:
            UserError: an example has no label, or one that the task does not know.
        """
        return label_indices(self.labels, [example.label for example in examples])

    def inputs(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each example; its target is the index of the label.

        Raises:
            UserError: a label is unknown, or a text holds only characters that the tokenizer drops.
        """
        encodings = self.encode(examples, tokenizer, max_length)
        inputs = []
        for index, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            target = None if example.label is None else self.targets([example])[0]
            inputs.append(Input((encoding,), target, index))
        return inputs

    def metrics(self, targets: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """Return accuracy, macro F1 and Matthews' correlation; for two labels also the F1 of the second.

        Args:
            targets: (N,) indices of labels.
            logits: (N, C).
        """
        scores = metrics.classification(targets, logits.argmax(axis=1))
        if len(self.labels) == 2:
            scores["f1"] = metrics.f1_of_second(targets, logits.argmax(axis=1))
        return scores

    def score(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return the scores of the outputs, each (C,): accuracy, macro F1 and Matthews' correlation.

        For two labels, the F1 of the second is among them.

        Raises:
            UserError: an example has no label, or scikit-learn is not installed.
        """
        return self.metrics(self.targets(examples), np.stack(outputs))

    def predictions(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return for each example its label and the probability of every label, from the outputs, each (C,)."""
        return [self.describe(output) for output in outputs]

    def describe(self, logits: np.ndarray) -> dict[str, Any]:
        """Return the label and the probability of every label, from the logits (C,) of one text."""
        return {
            "label": self.labels[int(logits.argmax())],
            "probabilities": {label: float(p) for label, p in zip(self.labels, softmax(logits), strict=True)},
        }
