"""Mask tokens for the masked language model (Devlin et al. 2019, section 3.1): whole batches at a time.

Of the chosen tokens 80 % become ``[MASK]``, 10 % become a random piece, and 10 % stay the same, so that the model
cannot tell which of the tokens that it sees are right.

Shape legend: T tokens, P chosen tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from d2lbert.config.settings import Settings, setting
from d2lbert.errors import UserError
from d2lbert.text import MASK, SPECIAL_TOKENS, WordPiece


@dataclass(frozen=True)
class MaskingRates(Settings):
    """How many tokens are chosen, and how they are hidden. A token neither masked nor replaced stays the same.

    Raises:
        UserError: a value is outside its range, or ``masked`` and ``replaced`` add up to more than 1.
    """

    kind: ClassVar[str] = "masking"

    chosen: float = setting(0.15, "share of the tokens that the model has to predict", at_least=0, at_most=1)
    masked: float = setting(0.8, "share of those to predict that become [MASK]", at_least=0, at_most=1)
    replaced: float = setting(0.1, "share of those to predict that become a random piece", at_least=0, at_most=1)
    whole_words: bool = setting(False, "hide words, all pieces of each, instead of single pieces")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.masked + self.replaced > 1 + 1e-9:
            raise UserError(f"masking: masked {self.masked} and replaced {self.replaced} add up to more than 1")


class Masked(NamedTuple):
    """Masked tokens.

    Fields:
        ids: (T,) the tokens that the model sees.
        positions: (P,) the positions of the chosen tokens, in ascending order.
        targets: (P,) the original tokens at these positions.
    """

    ids: np.ndarray
    positions: np.ndarray
    targets: np.ndarray


class Masking:
    """Masking for one vocabulary.

    The number of chosen tokens is random: each token (or each word) is chosen independently. The paper's program
    chooses 15 % of every sequence, rounded, which is the same on average.

    Args:
        tokenizer: defines which ids are special (never chosen, never used as a replacement) and which continue a word.
        rates: how many tokens are chosen, and how they are hidden.

    Fields:
        mask_id: of ``[MASK]``.

    Raises:
        UserError: the vocabulary holds special tokens only.
    """

    def __init__(self, tokenizer: WordPiece, rates: MaskingRates | None = None) -> None:
        self.rates = rates or MaskingRates()
        special = [tokenizer.token_to_id[token] for token in SPECIAL_TOKENS]
        self._ordinary = np.ones(len(tokenizer.vocab), dtype=bool)  # (V,)
        self._ordinary[special] = False
        self._replacements = np.flatnonzero(self._ordinary)
        self._continues = np.array([piece.startswith("##") for piece in tokenizer.vocab])  # (V,)
        self.mask_id = tokenizer.token_to_id[MASK]
        if not len(self._replacements):
            raise UserError("the vocabulary holds special tokens only: there is nothing to mask")

    def __call__(self, ids: np.ndarray, random: np.random.Generator) -> Masked:
        """Mask tokens.

        Args:
            ids: (T,) the tokens of any number of sequences, special tokens included; they are not changed.
            random: the generator that makes all random choices.
        """
        rates = self.rates
        positions = self._choose_words(ids, random) if rates.whole_words else _hits(len(ids), rates.chosen, random)
        positions = positions[self._ordinary[ids[positions]]]
        targets = ids[positions]
        draws = random.random(len(positions), dtype=np.float32)
        new = targets.copy()
        new[draws < rates.masked] = self.mask_id
        replaced = np.flatnonzero(draws >= 1 - rates.replaced)
        new[replaced] = self._replacements[random.integers(len(self._replacements), size=len(replaced))]
        masked = ids.copy()
        masked[positions] = new
        return Masked(masked, positions, targets)

    def _choose_words(self, ids: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Choose words and return the positions of their pieces. A word is a piece and the ``##`` pieces after it."""
        words = np.cumsum(~self._continues[ids])  # (T,) the number of each token's word
        chosen = np.zeros(int(words[-1]) + 1 if len(words) else 1, dtype=bool)
        chosen[_hits(len(chosen), self.rates.chosen, random)] = True
        return np.flatnonzero(chosen[words])


def _hits(count: int, rate: float, random: np.random.Generator) -> np.ndarray:
    """Return which of ``count`` independent trials of probability ``rate`` succeed."""
    return np.flatnonzero(random.random(count, dtype=np.float32) < rate)
