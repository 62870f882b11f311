"""Sentences as lists of words, and batches of them for a language model that reads characters (ELMo).

NumPy only. Shape legend: B sentences of a batch, T words of the longest with its two markers, W characters per word.
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
_POOL = 100  # batches whose sentences are sorted by length together: little padding, but still a random order


def split_sentences(words: Sequence[str], longest: int = 60) -> Iterator[list[str]]:
    """Yield sentences: the words cut after each ``.``, ``!`` or ``?``, and after ``longest`` words at the latest."""
    sentence: list[str] = []
    for word in words:
        sentence.append(word)
        if word in _ENDS or len(sentence) == longest:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def read_sentences(documents: Iterable[Document], max_words: int, longest: int = 60) -> list[list[str]]:
    """Return the sentences of documents, with their case, until ``max_words`` words are read.

    Args:
        documents: the text; the document that reaches ``max_words`` is read to its end.
        max_words: the number of words, punctuation marks included, to stop at.
        longest: the largest length of a sentence, in words.

    Raises:
        UserError: the documents hold no words.
    """
    sentences: list[list[str]] = []
    words_read = 0
    for document in documents:
        for paragraph in document.paragraphs:
            paragraph_sentences = list(split_sentences(split_words(paragraph, lowercase=False), longest))
            sentences += paragraph_sentences
            words_read += sum(map(len, paragraph_sentences))
        if words_read >= max_words:
            break
    if not sentences:
        raise UserError("the documents hold no words: give some text")
    return sentences


def word_vocabulary(sentences: Iterable[Sequence[str]], max_size: int) -> Vocabulary:
    """Return a vocabulary: the two markers, the unknown word, then the most frequent words; ``max_size`` in all."""
    counts: dict[str, int] = {}
    for sentence in sentences:
        for word in sentence:
            counts[word] = counts.get(word, 0) + 1
    return Vocabulary(counts, max_size=max_size, special_tokens=(SENTENCE_BEGIN, SENTENCE_END, UNKNOWN))


class Batch(NamedTuple):
    """What :class:`d2lbert.torch.elmo.BidirectionalLanguageModel` takes.

    Fields:
        char_ids: (B, T, W), of each word's characters.
        mask: (B, T), True for a word or a marker and False for padding.
        word_ids: (B, T), the words to predict.
    """

    char_ids: np.ndarray
    mask: np.ndarray
    word_ids: np.ndarray


class SentenceBatches:
    """Batches with about the same number of words, each of sentences of about the same length.

    Args:
        sentences: lists of words.
        vocabulary: the words that can be predicted, from :func:`word_vocabulary`.
        max_characters: W.
        words_per_batch: the largest B times T; a longer sentence is a batch of its own.
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
        """Return the indices of the sentences of each batch; ``seed`` as in :meth:`epoch`."""
        lengths = np.array([len(sentence) + 2 for sentence in self.sentences])
        if seed is None:
            return self._cut(np.argsort(lengths, kind="stable"), lengths)
        generator = np.random.default_rng(seed)
        order = generator.permutation(len(lengths))
        pool_size = max(1, int(_POOL * self.words_per_batch / lengths.mean()))
        batches = []
        for start in range(0, len(order), pool_size):
            pool = order[start : start + pool_size]
            batches += self._cut(pool[np.argsort(lengths[pool], kind="stable")], lengths)
        return [batches[index] for index in generator.permutation(len(batches))]

    def _cut(self, order: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
        """Cut sentences, in order of length, into batches."""
        batches: list[list[int]] = []
        current: list[int] = []
        for row in order.tolist():
            if current and (len(current) + 1) * lengths[row] > self.words_per_batch:
                batches.append(current)
                current = []
            current.append(row)
        return [*batches, current] if current else batches

    def batch(self, rows: Sequence[int]) -> Batch:
        """Return the batch of the sentences with these indices."""
        sentences = [self.sentences[row] for row in rows]
        char_ids, mask = self.characters.batch(sentences)
        word_ids = np.zeros(mask.shape, dtype=np.int64)
        for row, sentence in enumerate(sentences):
            ids = self.vocabulary.ids([SENTENCE_BEGIN, *sentence, SENTENCE_END])
            word_ids[row, : len(ids)] = ids
        return Batch(char_ids, mask, word_ids)
