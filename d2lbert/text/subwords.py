"""The parts of a word for fastText: character n-grams, hashed into buckets (Bojanowski et al. 2017)."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from d2lbert.errors import UserError


def character_ngrams(word: str, shortest: int = 3, longest: int = 6) -> list[str]:
    """Return the character n-grams of a word between the marks ``<`` and ``>``.

    ``character_ngrams("as", 3, 4)`` gives ``["<as", "<as>", "as>"]``: the marks distinguish a prefix and a suffix from
    the same letters inside a word.

    Args:
        word: the word.
        shortest, longest: lengths of the n-grams, in characters, marks included.
    """
    marked = f"<{word}>"
    ngrams = []
    for start in range(len(marked)):
        for end in range(start + shortest, min(start + longest, len(marked)) + 1):
            ngrams.append(marked[start:end])
    return ngrams


@functools.lru_cache(maxsize=1 << 18)
def fnv1a(ngram: str) -> int:
    """Return the 32-bit FNV-1a hash of the UTF-8 bytes, as fastText computes it.

    fastText extends each byte as a signed number: from 0x80 on, the upper 24 bits are ones. Published vectors depend on
    this.
    """
    value = 2166136261
    for byte in ngram.encode("utf-8"):
        value ^= byte if byte < 0x80 else byte | 0xFFFFFF00
        value = (value * 16777619) & 0xFFFFFFFF
    return value


class SubwordTable:
    """The rows of an embedding table for each word: the word's vector is their mean.

    The table has a row for each word of the vocabulary, then a row for each bucket. Row 0, the padding word, never
    counts.

    Args:
        words: the vocabulary, V words; the first is padding.
        buckets: the number of rows that all n-grams share.
        shortest, longest: lengths of the n-grams, in characters, marks included.

    Raises:
        UserError: there is no bucket, or the lengths are not in order.
    """

    def __init__(self, words: Sequence[str], buckets: int, shortest: int = 3, longest: int = 6) -> None:
        if buckets < 1 or not 1 <= shortest <= longest:
            raise UserError(
                f"subwords: {buckets} buckets, lengths {shortest} to {longest}; give at least 1 and an order"
            )
        self.buckets, self.shortest, self.longest = buckets, shortest, longest
        self.word_to_id = {word: index for index, word in enumerate(words)}

    def __len__(self) -> int:
        """The number of rows of the embedding table."""
        return len(self.word_to_id) + self.buckets

    def row(self, word: str) -> list[int]:
        """Return the rows of any word: its own, if it is in the vocabulary, and those of its n-grams."""
        own = [self.word_to_id[word]] if word in self.word_to_id else []
        first = len(self.word_to_id)
        return own + [first + fnv1a(ngram) % self.buckets for ngram in self.ngrams(word)]

    def ngrams(self, word: str) -> list[str]:
        """Return the n-grams of a word."""
        return character_ngrams(word, self.shortest, self.longest)

    def rows(self) -> np.ndarray:
        """Return the rows of every word of the vocabulary, (V, G), padded with 0 to the largest number of rows G."""
        rows = [[0], *(self.row(word) for word in list(self.word_to_id)[1:])]
        table = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
        for index, row in enumerate(rows):
            table[index, : len(row)] = row
        return table
