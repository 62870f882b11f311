"""Training examples for word vectors: pairs of words that occur near each other, and noise words to tell them from.

NumPy only; both editions train on these batches. The rules are those of Mikolov et al. (2013b): frequent words are
thinned out, each position draws its own window size, noise words come from the unigram distribution to the power 3/4.

Shape legend: T tokens of the text, B examples of a batch, W largest window, N noise words, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from d2lbert.errors import UserError
from d2lbert.text import Vocabulary

PADDING = 0  # the id that fills a window with fewer than 2 W words
_CHUNK = 100_000  # positions that are processed, and shuffled, together; bounds the memory


class Batch(NamedTuple):
    """Examples for :class:`SkipGram`, :class:`Cbow` or :class:`FastText`.

    Fields:
        inputs: the model's input: (B,) centre words, or for CBOW (B, 2 W) words of the window, padded with 0.
        targets: (B,) the word to tell from noise: a word of the window, or for CBOW the centre word.
        noise: (B, N) noise words.
        progress: the fraction of all training that is done before this batch, from 0 to 1.
    """

    inputs: np.ndarray
    targets: np.ndarray
    noise: np.ndarray
    progress: float


def noise_distribution(counts: np.ndarray, power: float = 0.75) -> np.ndarray:
    """Return the probability of each word as noise, (V,), in proportion to its count to the power 3/4.

    Source: Mikolov et al. 2013b, section 2.2.

    Args:
        counts: (V,) how often each word occurs.
        power: the exponent.
    """
    weights = np.where(counts > 0, counts, 0).astype(np.float64) ** power
    weights[counts <= 0] = 0
    return weights / weights.sum()


def keep_probability(counts: np.ndarray, threshold: float) -> np.ndarray:
    """Return the probability that an occurrence of each word is kept, (V,) (Mikolov et al. 2013b, equation 5).

    A word of relative frequency f is kept with probability sqrt(threshold / f), at most 1. (The published C program
    uses a slightly larger value, sqrt(threshold / f) + threshold / f.)

    Args:
        counts: (V,) how often each word occurs.
        threshold: the relative frequency above which words are thinned out.
    """
    frequency = counts / counts.sum()
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, np.sqrt(threshold / frequency))


def windows(ids: np.ndarray, sentences: np.ndarray, radii: np.ndarray, width: int) -> np.ndarray:
    """Return the words around each position, (T, 2 W), 0 where there is none.

    Args:
        ids: (T,) word ids.
        sentences: (T,) index of the sentence of each word; a window ends where its sentence ends.
        radii: (T,) how far the window of each position reaches to either side, 1 to W.
        width: W.
    """
    around = np.full((len(ids), 2 * width), PADDING, dtype=ids.dtype)
    for distance in range(1, width + 1):
        same = sentences[distance:] == sentences[:-distance]
        after = same & (radii[:-distance] >= distance)
        before = same & (radii[distance:] >= distance)
        around[:-distance, width + distance - 1][after] = ids[distance:][after]
        around[distance:, width - distance][before] = ids[:-distance][before]
    return around


class Windows:
    """A text as training examples.

    Args:
        sentences: the words of each sentence (or paragraph).
        vocabulary: its id 0 must be padding; words outside it are dropped, so their neighbours move together.
        window: W, the largest distance between two words of an example, in words.
        noise: N, the number of noise words for each example.
        threshold: see :func:`keep_probability`; 1e-5 suits a billion words, 1e-3 a million.
        seed: the seed of all random choices.

    Raises:
        UserError: no two neighbouring words of the text are in the vocabulary, or a size is below 1.
    """

    def __init__(
        self,
        sentences: Iterable[Sequence[str]],
        vocabulary: Vocabulary,
        *,
        window: int = 5,
        noise: int = 5,
        threshold: float = 1e-3,
        seed: int = 0,
    ) -> None:
        if window < 1 or noise < 1:
            raise UserError(f"window is {window} and noise is {noise}; both must be at least 1")
        known = [[i for i in vocabulary.ids(words) if i != vocabulary.unknown_id] for words in sentences]
        lengths = [len(ids) for ids in known]
        if not known or max(lengths) < 2:
            raise UserError("the text has no two neighbouring words of the vocabulary; give more text")
        self.ids = np.concatenate([np.array(ids, dtype=np.int64) for ids in known])
        self.sentences = np.repeat(np.arange(len(known)), lengths)
        self.counts = np.bincount(self.ids, minlength=len(vocabulary))
        self.window, self.noise = window, noise
        self._keep = keep_probability(self.counts, threshold)
        self._noise_edges = np.cumsum(noise_distribution(self.counts))
        self._noise_edges /= self._noise_edges[-1]  # so that no draw falls beyond the last edge
        self._random = np.random.default_rng(seed)

    def __len__(self) -> int:
        """T, the number of tokens."""
        return len(self.ids)

    def draw_noise(self, *shape: int) -> np.ndarray:
        """Return random noise words in an array of the given shape."""
        return np.searchsorted(self._noise_edges, self._random.random(shape), side="right")

    def skip_gram(self, batch_size: int = 1024, epochs: int = 1) -> Iterator[Batch]:
        """Yield batches whose inputs are centre words and whose targets are single words of their windows.

        Args:
            batch_size: B, the largest number of examples in a batch.
            epochs: how often to go through the text.
        """
        for centers, around, begin, end in self._chunks(epochs):
            rows, columns = np.nonzero(around != PADDING)
            yield from self._batches(centers[rows], around[rows, columns], batch_size, begin, end)

    def cbow(self, batch_size: int = 1024, epochs: int = 1) -> Iterator[Batch]:
        """Yield batches whose inputs are all words of a window and whose targets are the centre words.

        Arguments are those of :meth:`skip_gram`.
        """
        for centers, around, begin, end in self._chunks(epochs):
            rows = np.flatnonzero((around != PADDING).any(axis=1))
            yield from self._batches(around[rows], centers[rows], batch_size, begin, end)

    def _chunks(self, epochs: int) -> Iterator[tuple[np.ndarray, np.ndarray, float, float]]:
        """Yield the centre words of a chunk, their windows, and the progress of training at its start and its end."""
        for epoch in range(epochs):
            kept = self._random.random(len(self.ids)) < self._keep[self.ids]
            ids, sentences = self.ids[kept], self.sentences[kept]
            for start in range(0, len(ids), _CHUNK):
                part = slice(start, start + _CHUNK)
                # A window across the border of two chunks is cut: one position in 100,000 / W, not worth more code.
                radii = self._random.integers(1, self.window + 1, size=len(ids[part]))
                around = windows(ids[part], sentences[part], radii, self.window)
                # Positions are shuffled, but the pairs of one position stay together: this saves FastText work.
                order = self._random.permutation(len(radii))
                begin, end = start / len(ids), min(1.0, (start + _CHUNK) / len(ids))
                yield ids[part][order], around[order], (epoch + begin) / epochs, (epoch + end) / epochs

    def _batches(self, inputs: np.ndarray, targets: np.ndarray, size: int, begin: float, end: float) -> Iterator[Batch]:
        for start in range(0, len(targets), size):
            part = slice(start, start + size)
            progress = begin + (end - begin) * start / len(targets)
            yield Batch(inputs[part], targets[part], self.draw_noise(len(targets[part]), self.noise), progress)
