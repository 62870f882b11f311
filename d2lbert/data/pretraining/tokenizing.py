"""Tokenise a corpus: each distinct word once.

Few words make up most of a text: four million characters of English hold some 85,000 distinct words. So the
`tokenizers` library splits each into pieces once, and from then on it is looked up; the rest is arithmetic on arrays.

Shape legend: W words of a text (stretches between spaces), T tokens, S sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from d2lbert.text import WordPiece

_CACHED_WORDS = 1_000_000  # some 200 MB; a full cache is emptied

# Python splits at these control characters; BERT drops them, and the text around them is one word.
_NO_SPACE = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_SPACES = re.compile("[^\\S\x0b\x0c\x1c-\x1f\x85]+")

# A sentence ends where a word matches _END but not _NO_END (an initial or a usual abbreviation), and the next matches
# _BEGIN.
_END = re.compile(r"""[.!?]["'”’)\]]*$""")
_LAST = """.!?"'”’)]"""
_NO_END = re.compile(r"""["'“‘(\[]*(?:\w|Mr|Mrs|Ms|Dr|St|Prof|Gen|Col|Lt|Sgt|Rev|No|vs|cf|e\.g|i\.e|etc|approx)\.$""")
_BEGIN = re.compile(r"""["'“‘(\[]*[A-Z0-9À-ÖØ-ÞΑ-ΩА-Я]""")


class TokenizedText(NamedTuple):
    """Paragraphs as one array of tokens.

    Fields:
        ids: (T,) without special tokens around the paragraphs.
        sentence_lengths: (S,) tokens of each sentence; the end of a paragraph ends a sentence.
        paragraph_sentences: how many sentences each paragraph has.
    """

    ids: np.ndarray
    sentence_lengths: np.ndarray
    paragraph_sentences: np.ndarray


class _Numbers(dict[str, int]):
    """Number words in the order in which they are first looked up."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class CorpusTokenizer:
    """Tokenise much text fast. The ids are those of :meth:`WordPiece.encode`, without ``[CLS]`` and ``[SEP]``.

    Args:
        tokenizer: the tokenizer whose vocabulary and cleaning to use.
        cached_words: the number of distinct words above which the cache is emptied before the next call.
    """

    def __init__(self, tokenizer: WordPiece, cached_words: int = _CACHED_WORDS) -> None:
        self.tokenizer = tokenizer
        self.cached_words = cached_words
        self._forget()

    def _forget(self) -> None:
        self._numbers = _Numbers()
        self._pieces = np.zeros(0, dtype=np.int32)  # the pieces of word 0, of word 1, ...
        self._starts = np.zeros(1, dtype=np.int64)  # where those of each word begin, and the end of the last
        self._ends_sentence = np.zeros(0, dtype=bool)
        self._begins_sentence = np.zeros(0, dtype=bool)

    def encode(self, text: str) -> np.ndarray:
        """Return the ids of one text, (T,) int32."""
        return self._expand(self._look_up(_words(text)))[0]

    def encode_paragraphs(self, paragraphs: Sequence[str]) -> TokenizedText:
        """Return the ids of paragraphs, one after the other, with the lengths of their sentences.

        The end of a sentence is guessed from the spelling: a word that ends in ``.``, ``!`` or ``?`` before a word that
        begins with a capital letter or a digit. Now and then an abbreviation is mistaken for an end; this does no harm.
        """
        words: list[str] = []
        counts = np.zeros(len(paragraphs), dtype=np.int64)
        for index, paragraph in enumerate(paragraphs):
            before = len(words)
            words += _words(paragraph)
            counts[index] = len(words) - before
        numbers = self._look_up(words)
        ids, lengths = self._expand(numbers)
        last = np.zeros(len(numbers), dtype=bool)  # (W,) whether a word is the last of a sentence
        last[:-1] = self._ends_sentence[numbers[:-1]] & self._begins_sentence[numbers[1:]]
        last[np.cumsum(counts)[counts > 0] - 1] = True
        sentence_lengths = np.diff(np.cumsum(lengths)[last], prepend=0)
        last[last] = sentence_lengths > 0  # nothing may be left of a sentence that was a single zero-width space
        sentences = np.add.reduceat(np.append(last, False), np.cumsum(counts) - counts, dtype=np.int64)
        return TokenizedText(ids, sentence_lengths[sentence_lengths > 0], np.where(counts > 0, sentences, 0))

    def _look_up(self, words: list[str]) -> np.ndarray:
        """Return the number of each word, (W,); words not seen before are split into pieces first."""
        if len(self._numbers) > self.cached_words:
            self._forget()
        known = len(self._numbers)
        numbers = np.fromiter(map(self._numbers.__getitem__, words), dtype=np.int64, count=len(words))
        if len(self._numbers) > known:
            self._learn(list(islice(self._numbers, known, None)))
        return numbers

    def _learn(self, words: list[str]) -> None:
        pieces, word_indices = self.tokenizer.encode_words(words)
        lengths = np.bincount(np.array(word_indices, dtype=np.int64), minlength=len(words))
        self._pieces = np.concatenate([self._pieces, np.array(pieces, dtype=np.int32)])
        self._starts = np.concatenate([self._starts, self._starts[-1] + np.cumsum(lengths)])
        # One character is enough to decide for most words.
        ends = [word[-1] in _LAST and bool(_END.search(word)) and not _NO_END.fullmatch(word) for word in words]
        begins = [not word[0].islower() and _BEGIN.match(word) is not None for word in words]
        self._ends_sentence = np.concatenate([self._ends_sentence, np.array(ends, dtype=bool)])
        self._begins_sentence = np.concatenate([self._begins_sentence, np.array(begins, dtype=bool)])

    def _expand(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Replace each word by its pieces: (W,) -> the pieces (T,) and the number of pieces of each word (W,)."""
        starts = self._starts[numbers]
        lengths = self._starts[numbers + 1] - starts
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        # Token t of the text is piece t - (start of its word in the text) + (start of its word in the store).
        indices = np.arange(total) + np.repeat(starts - (ends - lengths), lengths)
        return self._pieces[indices], lengths


def _words(text: str) -> list[str]:
    if _NO_SPACE.search(text):
        return [word for word in _SPACES.split(text) if word]
    return text.split()
