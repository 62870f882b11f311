"""Sentences as lists of words, and batches of them for a language model that reads characters (ELMo).

NumPy only. Shape legend: B sentences of a batch, T words of the longest with its two markers, W characters of a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from d2lbert.data.examples import Document
from d2lbert.errors import UserError
from d2lbert.text import Vocabulary, split_words
from d2lbert.text.characters import SENTENCE_BEGIN, SENTENCE_END, WordCharacters
from d2lbert.text.encoding import UNKNOWN

_ENDS = {".", "!", "?"}
_POOL = 100  # batches whose sentences are sorted by length together: little padding, still a random order


def split_sentences(words: Sequence[str], longest: int = 60) -> Iterator[list[str]]:
    """Cut a list of words after each ``.``, ``!`` or ``?``, and after ``longest`` words at the latest."""
    sentence: list[str] = []
    for word in words:
        sentence.append(word)
        if word in _ENDS or len(sentence) == longest:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def read_sentences(documents: Iterable[Document], max_words: int, longest: int = 60) -> list[list[str]]:
    """Return the sentences of documents, case kept, until ``max_words`` words are read.

    Raises:
        UserError: there is no word in the documents.
    """
    sentences: list[list[str]] = []
    read = 0
    for document in documents:
        for paragraph in document.paragraphs:
            found = list(split_sentences(split_words(paragraph, lowercase=False), longest))
            sentences += found
            read += sum(map(len, found))
        if read >= max_words:
            break
    if not sentences:
        raise UserError("the documents hold no words: give some text")
    return sentences


def word_vocabulary(sentences: Iterable[Sequence[str]], max_size: int) -> Vocabulary:
    """Return the most frequent words, after the two markers and the unknown word."""
    counts: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    return Vocabulary(counts, max_size=max_size, special_tokens=(SENTENCE_BEGIN, SENTENCE_END, UNKNOWN))


class Batch(NamedTuple):
    """What :class:`d2lbert.torch.elmo.BidirectionalLanguageModel` takes.

    Fields:
        char_ids: (B, T, W).
        mask: (B, T), True where a word or a marker stands.
        word_ids: (B, T), what is to be guessed.
    """

    char_ids: np.ndarray
    mask: np.ndarray
    word_ids: np.ndarray


class SentenceBatches:
    """Batches of about equally many words, of sentences of about equal length.

    Args:
        sentences: lists of words.
        vocabulary: the words that can be guessed, from :func:`word_vocabulary`.
        max_characters: W.
        words_per_batch: B times T, at most; a longer sentence makes a batch of its own.
    """

    def __init__(
        self, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, max_characters: int, words_per_batch: int
    ) -> None:
        self.sentences = sentences
        self.vocabulary = vocabulary
        self.characters = WordCharacters(max_characters)
        self.words_per_batch = words_per_batch

    def epoch(self, seed: int | None) -> Iterator[Batch]:
        """Yield all sentences once, in an order that depends on ``seed`` alone; None keeps them sorted by length."""
        for rows in self.plan(seed):
            yield self.batch(rows)

    def plan(self, seed: int | None) -> list[list[int]]:
        """Return the numbers of the sentences of each batch."""
        lengths = np.array([len(sentence) + 2 for sentence in self.sentences])
        if seed is None:
            return self._cut(np.argsort(lengths, kind="stable"), lengths)
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(lengths))
        pool = max(1, int(_POOL * self.words_per_batch / lengths.mean()))
        batches = []
        for start in range(0, len(order), pool):
            chosen = order[start : start + pool]
            batches += self._cut(chosen[np.argsort(lengths[chosen], kind="stable")], lengths)
        return [batches[index] for index in generator.permutation(len(batches))]

    def _cut(self, order: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
        """Cut sentences in order of length into batches."""
        batches: list[list[int]] = []
        current: list[int] = []
        for row in order.tolist():
            if current and (len(current) + 1) * lengths[row] > self.words_per_batch:
                batches.append(current)
                current = []
            current.append(row)
        return [*batches, current] if current else batches

    def batch(self, rows: Sequence[int]) -> Batch:
        """Return the batch of the sentences with these numbers."""
        sentences = [self.sentences[row] for row in rows]
        char_ids, mask = self.characters.batch(sentences)
        word_ids = np.zeros(mask.shape, dtype=np.int64)
        for row, sentence in enumerate(sentences):
            ids = self.vocabulary.ids([SENTENCE_BEGIN, *sentence, SENTENCE_END])
            word_ids[row, : len(ids)] = ids
        return Batch(char_ids, mask, word_ids)
