"""Batches of random tokens for benchmarks of pretraining: the time of a step does not depend on what the tokens are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.pretraining_sides import full_rows
from d2lbert.data.batching import Batch
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.text.encoding import Encoding

VOCAB_SIZE = 30522
MASK_ID = 103  # of [MASK]
MASKED = 0.15
SHORTEST = 16  # tokens of a text, where they are of every length


def random_batch(rows: int, length: int, random: np.random.Generator) -> PretrainingBatch:
    """Return full rows of random tokens, some of which are asked for."""
    ids = random.integers(1000, VOCAB_SIZE, size=(rows, length))
    places = np.sort(random.permutation(rows * length)[: round(MASKED * rows * length)])
    targets = ids.reshape(-1)[places].copy()
    ids.reshape(-1)[places] = MASK_ID
    return PretrainingBatch(full_rows(ids), places, targets, random.integers(2, size=rows))


@dataclass(frozen=True)
class RandomTexts:
    """Texts of random tokens, some of which are asked for.

    Fields:
        encodings: the texts, with [MASK] where a token is asked for.
        masked: (P, 2), the text and the place in it of each such token.
        targets: (P,), what stood there.
        next_labels: (N,), 0 or 1.
    """

    encodings: list[Encoding]
    masked: np.ndarray
    targets: np.ndarray
    next_labels: np.ndarray

    @classmethod
    def draw(cls, tokens: int, longest: int, random: np.random.Generator) -> RandomTexts:
        """Return texts of ``SHORTEST`` to ``longest`` tokens, all lengths equally often, until there are ``tokens``."""
        lengths: list[int] = []
        while sum(lengths) < tokens:
            lengths.append(int(random.integers(min(SHORTEST, longest), longest + 1)))
        encodings, masked, targets = [], [], []
        for text, length in enumerate(lengths):
            ids = random.integers(1000, VOCAB_SIZE, size=length)
            places = np.sort(random.permutation(length)[: max(1, round(MASKED * length))])
            targets.append(ids[places].copy())
            ids[places] = MASK_ID
            masked.append(np.stack([np.full(len(places), text), places], axis=1))
            halves = [int(place > length // 2) for place in range(length)]
            encodings.append(Encoding(ids.tolist(), halves, [], [], []))
        return cls(encodings, np.concatenate(masked), np.concatenate(targets), random.integers(2, size=len(lengths)))

    def batch(self, rows: Batch) -> PretrainingBatch:
        """Return input and targets, with the texts in the given rows."""
        row, column = rows.starts[self.masked[:, 0]].T
        places = row * rows.token_ids.shape[1] + column + self.masked[:, 1]
        return PretrainingBatch(rows, places, self.targets, self.next_labels)
