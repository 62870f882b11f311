"""Two texts: one label for what they are to each other, or one score for how alike they are.

Both enter the model at once, ``[CLS] first [SEP] second [SEP]``, so that each layer can compare them word by word.
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
from d2lbert.text import Encoding, Tokenizer


class PairClassification(Classification):
    """Classify a pair of texts: paraphrase, entailment, the same sense. Only the encoding differs from one text."""

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[Encoding]:
        """Return [CLS] first [SEP] second [SEP] for each example; pairs that had to be cut are counted in a warning.

        Raises:
            UserError: nothing of a text is left, because it holds only signs that the tokenizer drops.
        """
        return _encode(examples, tokenizer, max_length)


class PairRegression(Task):
    """Give a pair of texts a score, on the scale of the training examples (0 to 5 in the STS benchmark)."""

    loss = Loss.SCORE
    labels: tuple[str, ...] = ("score",)  # one output, under this name in config.json

    def inputs(self, examples: Sequence[ScoredPair], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input an example; its target is the score."""
        encodings = _encode(examples, tokenizer, max_length)
        pairs = zip(examples, encodings, strict=True)
        return [Input((encoding,), example.score, place) for place, (example, encoding) in enumerate(pairs)]

    def score(
        self, examples: Sequence[ScoredPair], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return Spearman's and Pearson's correlation and the mean squared error of the outputs, each (1,)."""
        targets = [example.score for example in examples if example.score is not None]
        if len(targets) < len(examples):
            raise UserError("a pair without a score cannot be measured: give every pair its score")
        return metrics.regression(np.array(targets), np.concatenate(outputs))

    def answers(
        self, examples: Sequence[ScoredPair], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the score of each pair."""
        return [{"score": float(output[0])} for output in outputs]


def _encode(examples: Sequence[Pair | ScoredPair], tokenizer: Tokenizer, max_length: int) -> list[Encoding]:
    firsts, seconds = [example.first for example in examples], [example.second for example in examples]
    return encode_texts(tokenizer, firsts, seconds, max_length)
