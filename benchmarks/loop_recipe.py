"""The recipe of BERT's data in plain Python, token by token: what the vectorised pipeline is measured against.

The steps are those of Devlin et al. (2019), appendix A.2, in the way of their release, which works on the pieces as
strings: sentences are collected into a chunk, the chunk is split at random, half of the time the second part comes from
another document, the longer part is shortened token by token, the candidates for masking are shuffled and gone through
one by one, pieces become ids, and each list is filled up to the maximal length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

Document = list[list[str]]  # the pieces of each sentence


class Instance(NamedTuple):
    """A pair: its pieces, their segments, and whether the second text is from another document."""

    tokens: list[str]
    segments: list[int]
    label: int


class LoopRecipe:
    """Make batches one token at a time.

    Args:
        vocab: the pieces, by id.
        max_length: of a pair.
    """

    def __init__(self, vocab: Sequence[str], max_length: int, seed: int) -> None:
        self.vocab = list(vocab)
        self.ids = {piece: index for index, piece in enumerate(vocab)}
        self.max_length = max_length
        self.random = random.Random(seed)

    def pairs(self, documents: list[Document]) -> Iterator[Instance]:
        """Yield the pairs of all documents."""
        for number, document in enumerate(documents):
            chunk: Document = []
            place = 0
            while place < len(document):
                chunk.append(document[place])
                length = sum(len(sentence) for sentence in chunk)
                if place == len(document) - 1 or length >= self.max_length - 3:
                    cut = self.random.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
                    a = [token for sentence in chunk[:cut] for token in sentence]
                    if len(chunk) == 1 or self.random.random() < 0.5:
                        b, label = self._other_text(documents, number, self.max_length - 3 - len(a)), 1
                        place -= len(chunk) - cut
                    else:
                        b, label = [token for sentence in chunk[cut:] for token in sentence], 0
                    self._shorten(a, b)
                    yield self._joined(a, b, label)
                    chunk = []
                place += 1

    def _other_text(self, documents: list[Document], number: int, length: int) -> list[str]:
        other = number
        while other == number:
            other = self.random.randrange(len(documents))
        text: list[str] = []
        for sentence in documents[other][self.random.randrange(len(documents[other])) :]:
            text.extend(sentence)
            if len(text) >= length:
                break
        return text

    def _shorten(self, a: list[str], b: list[str]) -> None:
        while len(a) + len(b) > self.max_length - 3:
            longer = a if len(a) > len(b) else b
            if self.random.random() < 0.5:
                del longer[0]
            else:
                longer.pop()

    def _joined(self, a: list[str], b: list[str], label: int) -> Instance:
        tokens, segments = ["[CLS]"], [0]
        for token in a:
            tokens.append(token)
            segments.append(0)
        tokens.append("[SEP]")
        segments.append(0)
        for token in b:
            tokens.append(token)
            segments.append(1)
        tokens.append("[SEP]")
        segments.append(1)
        return Instance(tokens, segments, label)

    def masked(self, tokens: list[str]) -> tuple[list[str], list[int], list[str]]:
        """Return the pieces with masks, the places chosen, and what stood there."""
        candidates = []
        for place, token in enumerate(tokens):
            if token == "[CLS]" or token == "[SEP]":
                continue
            candidates.append(place)
        self.random.shuffle(candidates)
        count = max(1, round(0.15 * len(tokens)))
        output, chosen = list(tokens), []
        for place in candidates:
            if len(chosen) >= count:
                break
            if self.random.random() < 0.8:
                output[place] = "[MASK]"
            elif self.random.random() < 0.5:
                output[place] = self.vocab[self.random.randint(0, len(self.vocab) - 1)]
            chosen.append((place, tokens[place]))
        chosen.sort(key=lambda pair: pair[0])
        return output, [place for place, _ in chosen], [token for _, token in chosen]

    def batch(self, pairs: Sequence[Instance]) -> tuple[np.ndarray, ...]:
        """Mask pairs and fill them up: ids, segments, mask, labels (-100 elsewhere), next labels."""
        rows = []
        for tokens, pair_segments, label in pairs:
            masked, places, targets = self.masked(tokens)
            ids = [self.ids[token] for token in masked]
            segments, mask, answers = list(pair_segments), [1] * len(ids), [-100] * len(ids)
            for place, target in zip(places, targets, strict=True):
                answers[place] = self.ids[target]
            while len(ids) < self.max_length:
                ids.append(0)
                segments.append(0)
                mask.append(0)
                answers.append(-100)
            rows.append((ids, segments, mask, answers, label))
        return tuple(np.array(column) for column in zip(*rows, strict=True))
