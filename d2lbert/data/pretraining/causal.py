"""Batches for a causal language model, from the shards that BERT is pretrained on: every token predicts the next.

Shape legend: T tokens of a batch, R rows, L length of a row, P tokens that have a next one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from d2lbert.data.batching import Batch
from d2lbert.data.pretraining.batches import PretrainingSettings, TextData, Texts
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.errors import UserError


@dataclass(frozen=True)
class CausalBatch:
    """Input and targets of one step.

    Fields:
        rows: the texts, ``[CLS] text [SEP]``, in R rows.
        positions: (P,) every token but the last of each text: row times L plus column.
        next_ids: (P,) the token that follows each of them.
    """

    rows: Batch
    positions: np.ndarray
    next_ids: np.ndarray

    @property
    def targets(self) -> dict[str, np.ndarray]:
        """The targets of the one objective."""
        return {"next_token": self.next_ids}


class CausalData(TextData[CausalBatch]):
    """The batches from which GPT learns: single texts in which nothing is hidden.

    ``[CLS]`` begins a text, so that its first piece is predicted as well, and ``[SEP]`` ends it.

    Arguments are those of :class:`d2lbert.data.pretraining.batches.TextData`.

    Raises:
        UserError: the split is empty, or the settings ask for pairs or say how to mask.
    """

    objectives = ("next_token",)

    def __init__(self, shards: TokenShards, settings: PretrainingSettings, split: str = "train") -> None:
        super().__init__(shards, settings, split)
        if settings.next_sentence or settings.rates != MaskingRates():
            raise UserError("a causal language model reads single texts and hides nothing: ask for no pairs, no masks")

    def _make_batch(self, texts: Texts, random: np.random.Generator) -> CausalBatch:
        rows, positions = self._rows(texts)
        last = np.cumsum(texts.lengths) - 1  # the last token of a text has no next one
        sources = np.delete(np.arange(len(texts.ids)), last)
        return CausalBatch(rows, positions[sources], texts.ids[sources + 1])
