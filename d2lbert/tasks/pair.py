"""Two texts get one label for how they relate, or one score for how similar they are.

The model reads both at once, ``[CLS] first [SEP] second [SEP]``, so that each layer can compare them word by word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from d2lbert import metrics
from d2lbert.data.examples import Pair, ScoredPair
from d2lbert.errors import UserError
from d2lbert.tasks.base import Input, Loss, Task, encode_texts
from d2lbert.tasks.classification import Classification
from d2lbert.text import CompactEncoding, Tokenizer


class PairClassification(Classification):
    """Classify a pair of texts: paraphrase, entailment, same sense. It differs from one text only in the encoding."""

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[CompactEncoding]:
        """Return [CLS] first [SEP] second [SEP] for each example; a warning counts the pairs that had to be truncated.

        Raises:
            UserError: a text holds only characters that the tokenizer drops, or ``max_length`` is below 5.
        """
        return _encode(examples, tokenizer, max_length)


class PairRegression(Task):
    """Give a pair of texts a score, on the scale of the training examples (0 to 5 in the STS benchmark)."""

    loss = Loss.SCORE
    labels: tuple[str, ...] = ("score",)  # one output, under this name in config.json

    def inputs(self, examples: Sequence[ScoredPair], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each example; its target is the score.

        Raises:
            UserError: a text holds only characters that the tokenizer drops, or ``max_length`` is below 5.
        """
        encodings = _encode(examples, tokenizer, max_length)
        pairs = zip(examples, encodings, strict=True)
        return [Input((encoding,), example.score, index) for index, (example, encoding) in enumerate(pairs)]

    def score(
        self, examples: Sequence[ScoredPair], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return Spearman's and Pearson's correlation and the mean squared error of the outputs, each (1,).

        Raises:
            UserError: a pair has no score, there are fewer than two pairs, or SciPy is not installed.
        """
        targets = [example.score for example in examples if example.score is not None]
        if len(targets) < len(examples):
            raise UserError("a pair without a score cannot be measured: give every pair its score")
        return metrics.regression(np.array(targets), np.concatenate(outputs))

    def predictions(
        self, examples: Sequence[ScoredPair], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the predicted score of each pair, from the outputs, each (1,)."""
        return [{"score": float(output[0])} for output in outputs]


def _encode(examples: Sequence[Pair | ScoredPair], tokenizer: Tokenizer, max_length: int) -> list[CompactEncoding]:
    firsts, seconds = [example.first for example in examples], [example.second for example in examples]
    return encode_texts(tokenizer, firsts, seconds, max_length)
