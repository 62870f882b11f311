"""Word vectors: neighbours, analogies, and how well the vectors agree with people.

:class:`WordVectors` works on any matrix of vectors, learned here or published.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from d2lbert.data.examples import Analogy, WordPair
from d2lbert.errors import UserError, unknown_name

_BATCH = 256  # analogies solved by one matrix product


@dataclass(frozen=True)
class AnalogyScore:
    """How many questions there are, how many have all four words in the vocabulary, how many of these are solved."""

    questions: int
    covered: int
    correct: int

    @property
    def accuracy(self) -> float:
        """Correct answers divided by covered questions; nan where none is covered."""
        return self.correct / self.covered if self.covered else float("nan")


@dataclass(frozen=True)
class SimilarityScore:
    """Spearman's rank correlation with the scores of people, over the pairs whose words are both in the vocabulary."""

    pairs: int
    covered: int
    correlation: float


class WordVectors:
    """Words and one vector for each.

    Args:
        words: V different words, from the most to the least frequent.
        matrix: (V, D), row i the vector of word i; may be memory-mapped.

    Raises:
        UserError: the numbers of words and rows differ, or a word occurs twice.
    """

    def __init__(self, words: Sequence[str], matrix: np.ndarray) -> None:
        if matrix.ndim != 2 or len(words) != len(matrix):
            raise UserError(f"{len(words):,} words do not fit a matrix of shape {matrix.shape}: give one row a word")
        self.words = list(words)
        self.matrix = matrix
        self.word_to_id = {word: index for index, word in enumerate(self.words)}
        if len(self.word_to_id) < len(self.words):
            raise UserError("a word occurs twice among the words of the vectors: give each one row")

    def __len__(self) -> int:
        """V, the number of words."""
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.word_to_id

    def __getitem__(self, word: str) -> np.ndarray:
        """Return the vector of a word, (D,).

        Raises:
            UserError: the word is not in the vocabulary.
        """
        return self.matrix[self._id(word)]

    def first(self, count: int) -> WordVectors:
        """Return the vectors of the ``count`` most frequent words."""
        return WordVectors(self.words[:count], self.matrix[:count])

    @cached_property
    def unit(self) -> np.ndarray:
        """The vectors divided by their lengths, (V, D) float32, in memory; a vector of zeros stays as it is."""
        lengths = np.linalg.norm(self.matrix, axis=1, keepdims=True)
        return (self.matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)

    def cosine(self, first: str, second: str) -> float:
        """Return the cosine of the angle between two words' vectors; an unknown word is a UserError."""
        return float(self.unit[self._id(first)] @ self.unit[self._id(second)])

    def nearest(self, query: str | np.ndarray, k: int = 5, exclude: Iterable[str] = ()) -> list[tuple[str, float]]:
        """Return the k words nearest to a word or vector, each with its cosine, nearest first.

        Args:
            query: a word, which is itself left out, or a vector (D,).
            k: how many; fewer where the vocabulary has fewer.
            exclude: words to leave out.

        Raises:
            UserError: a word is not in the vocabulary.
        """
        if isinstance(query, str):
            exclude = {query, *exclude}
            query = self[query]
        length = float(np.linalg.norm(query))
        scores = self.unit @ np.asarray(query / (length or 1.0), dtype=np.float32)  # (V,)
        scores[[self._id(word) for word in exclude]] = -np.inf
        k = min(k, int(np.isfinite(scores).sum()))
        if k < 1:
            return []
        best = np.argpartition(-scores, k - 1)[:k]
        best = best[np.argsort(-scores[best], kind="stable")]
        return [(self.words[index], float(scores[index])) for index in best]

    def analogy(self, a: str, b: str, c: str, k: int = 1) -> list[tuple[str, float]]:
        """Answer "a is to b as c is to what?": return the k words nearest to b - a + c, without the three.

        The three vectors are first divided by their lengths (3CosAdd, Mikolov et al. 2013c, section 4).

        Raises:
            UserError: a word is not in the vocabulary.
        """
        rows = self.unit[[self._id(word) for word in (a, b, c)]]
        return self.nearest(rows[1] - rows[0] + rows[2], k, exclude=(a, b, c))

    def evaluate_analogies(self, questions: Sequence[Analogy], lowercase: bool = True) -> dict[str, AnalogyScore]:
        """Answer all questions as :meth:`analogy` does; an answer counts if it is exactly the expected word.

        Args:
            questions: each is (a, b, c) and the expected word d.
            lowercase: whether to put their words into lower case first.

        Returns:
            A score for each section in order, then ``"semantic"``, ``"syntactic"`` (sections of Google's set whose name
            begins with ``gram``) and ``"total"``. A question with a word outside the vocabulary is not covered.
        """
        ids = np.array([[self._lookup(word, lowercase) for word in (q.a, q.b, q.c, q.d)] for q in questions])
        ids = ids.reshape(-1, 4)
        covered: np.ndarray = np.all(ids >= 0, axis=1)
        correct = np.zeros(len(questions), dtype=bool)
        correct[covered] = self._solve(ids[covered, :3]) == ids[covered, 3]
        sections = np.array([question.section for question in questions])
        syntactic = np.array([question.section.startswith("gram") for question in questions], dtype=bool)
        groups = {section: sections == section for section in dict.fromkeys(sections.tolist())}
        groups |= {"semantic": ~syntactic, "syntactic": syntactic, "total": np.ones(len(questions), dtype=bool)}
        return {
            name: AnalogyScore(int(group.sum()), int(covered[group].sum()), int(correct[group].sum()))
            for name, group in groups.items()
        }

    def evaluate_similarity(self, pairs: Iterable[WordPair], lowercase: bool = True) -> dict[str, SimilarityScore]:
        """Return for each source of scored pairs how well the cosines rank its pairs (Spearman).

        Args:
            pairs: two words and the score that people gave them.
            lowercase: whether to put the words into lower case first.
        """
        from scipy.stats import spearmanr

        sources: dict[str, list[WordPair]] = {}
        for pair in pairs:
            sources.setdefault(pair.source, []).append(pair)
        scores = {}
        for source, members in sources.items():
            rows = [(self._lookup(p.first, lowercase), self._lookup(p.second, lowercase), p.score) for p in members]
            known = [row for row in rows if row[0] >= 0 and row[1] >= 0]
            cosines = [float(self.unit[first] @ self.unit[second]) for first, second, _ in known]
            correlation = spearmanr(cosines, [row[2] for row in known]).statistic if len(known) > 2 else float("nan")
            scores[source] = SimilarityScore(len(members), len(known), float(correlation))
        return scores

    def _solve(self, ids: np.ndarray) -> np.ndarray:
        """Return the ids of the answers, (n,), to the analogies a, b, c in ``ids``, (n, 3), batch by batch."""
        answers = np.empty(len(ids), dtype=np.int64)
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            a, b, c = (self.unit[batch[:, column]] for column in range(3))
            scores = (b - a + c) @ self.unit.T  # (n, V); the query's length does not change the order
            np.put_along_axis(scores, batch, -np.inf, axis=1)
            answers[start : start + len(batch)] = scores.argmax(axis=1)
        return answers

    def _lookup(self, word: str, lowercase: bool) -> int:
        return self.word_to_id.get(word.lower() if lowercase else word, -1)

    def _id(self, word: str) -> int:
        if word not in self.word_to_id:
            if len(self) > 5000:  # looking for near names among very many words takes minutes
                raise UserError(
                    f"no vector for the word {word!r}: it is not among the {len(self):,} words; try another"
                )
            raise unknown_name("word", word, self.words)
        return self.word_to_id[word]
