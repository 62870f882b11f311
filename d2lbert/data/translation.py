"""Sentence pairs as numbers: encoded, sorted into batches of about equal length.

Shape legend: B pairs of a batch, M length of the longest source, L length of the longest target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from d2lbert.data.examples import Translation
from d2lbert.errors import UserError
from d2lbert.text import BytePairEncoding

# The special tokens of a vocabulary for translation, in the order of their ids 0, 1, 2.
PAD, BEGIN, END = "[PAD]", "[BOS]", "[EOS]"
PAIR_TOKENS = (PAD, BEGIN, END)


class EncodedPair(NamedTuple):
    """Ids of a source with an end token, and of a target between a begin and an end token."""

    source: list[int]
    target: list[int]


@dataclass(frozen=True)
class PairBatch:
    """B pairs, padded. All arrays are int64.

    Fields:
        source_ids, source_mask: (B, M).
        target_ids, target_mask: (B, L), begin and end token included.
    """

    source_ids: np.ndarray
    source_mask: np.ndarray
    target_ids: np.ndarray
    target_mask: np.ndarray

    @property
    def num_tokens(self) -> int:
        """The number of tokens that a model predicts: those of the targets without the begin tokens."""
        return int(self.target_mask[:, 1:].sum())


def learn_vocabulary(examples: Sequence[Translation], merges: int) -> BytePairEncoding:
    """Learn one byte-pair encoding for both languages (Sennrich et al. 2016, section 3.2).

    Args:
        examples: the sentence pairs.
        merges: the largest number of merges; the vocabulary has 256 bytes and 3 special tokens more.
    """
    lines = [text for example in examples for text in (example.source, example.target)]
    return BytePairEncoding.learn(lines, merges, PAIR_TOKENS)


def encode_source(text: str, tokenizer: BytePairEncoding) -> list[int]:
    """Return the ids of a source with an end token."""
    return [*tokenizer.encode(text), tokenizer.special_id(END)]


def encode_pairs(
    examples: Sequence[Translation], tokenizer: BytePairEncoding, max_length: int = 256
) -> list[EncodedPair]:
    """Encode sentence pairs.

    Args:
        examples: the sentence pairs.
        tokenizer: from :func:`learn_vocabulary`.
        max_length: the largest length of a source or a target in tokens, special tokens included; a model has a limit.

    Raises:
        UserError: there are no pairs, or one is longer than ``max_length``.
    """
    if not examples:
        raise UserError("there are no sentence pairs to encode; give at least one")
    begin = tokenizer.special_id(BEGIN)
    encoded = []
    for number, example in enumerate(examples, start=1):
        source, target = encode_source(example.source, tokenizer), encode_source(example.target, tokenizer)
        longest = max(len(source), len(target) + 1)
        if longest > max_length:
            raise UserError(
                f"sentence pair {number} has {longest} tokens, more than {max_length}; "
                "shorten or remove it, or raise max_length"
            )
        encoded.append(EncodedPair(source, [begin, *target]))
    return encoded


def pad_ids(rows: Sequence[Sequence[int]], pad_id: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return ids (B, longest), each row padded with ``pad_id``, and the mask, 1 for a token and 0 for padding."""
    ids = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        mask[number, : len(row)] = 1
    return ids, mask


class PairBatches:
    """Batches of pairs of about the same length, so that there is little padding; each epoch in a new order.

    The order depends on the seed and the epoch alone, so training can resume from the number of batches used.

    Args:
        pairs: the encoded pairs, not empty.
        tokens: the largest number of target positions in a batch, padding included; a longer target is a batch of its
            own.
        seed: the seed of the order.

    Raises:
        UserError: there are no pairs, or ``tokens`` is below 1.
    """

    def __init__(self, pairs: Sequence[EncodedPair], tokens: int, seed: int = 0) -> None:
        if not pairs or tokens < 1:
            raise UserError(f"batches of {tokens} tokens from {len(pairs)} sentence pairs; give at least 1 of each")
        self.pairs, self.tokens, self.seed = list(pairs), tokens, seed
        self._lengths = np.array([[len(pair.source), len(pair.target)] for pair in pairs])
        self._cuts = self._cut(np.lexsort(self._lengths.T))

    def __len__(self) -> int:
        """The number of batches in an epoch; the same in every epoch."""
        return len(self._cuts) - 1

    def epoch(self, number: int) -> Iterator[PairBatch]:
        """Yield the batches of an epoch, counted from 0."""
        random = np.random.default_rng([self.seed, number])
        ties = random.permutation(len(self.pairs))
        # By the target's length, then roughly by the source's; pairs equal in both are shuffled, so that batches vary.
        order = np.lexsort((ties, self._lengths[:, 0] // 4, self._lengths[:, 1]))
        for batch in random.permutation(len(self)):
            yield self._batch(order[self._cuts[batch] : self._cuts[batch + 1]])

    def in_order(self) -> Iterator[PairBatch]:
        """Yield batches from short to long, for evaluation."""
        order = np.lexsort(self._lengths.T)
        for start, end in zip(self._cuts[:-1], self._cuts[1:], strict=True):
            yield self._batch(order[start:end])

    def _cut(self, order: np.ndarray) -> list[int]:
        """Return the position at which each batch begins in the order from short to long, and the end."""
        cuts = [0]
        for position, index in enumerate(order):
            # The newest pair has the longest target so far.
            if position > cuts[-1] and (position + 1 - cuts[-1]) * self._lengths[index, 1] > self.tokens:
                cuts.append(position)
        return [*cuts, len(order)]

    def _batch(self, rows: np.ndarray) -> PairBatch:
        source_ids, source_mask = pad_ids([self.pairs[row].source for row in rows])
        target_ids, target_mask = pad_ids([self.pairs[row].target for row in rows])
        return PairBatch(source_ids, source_mask, target_ids, target_mask)
