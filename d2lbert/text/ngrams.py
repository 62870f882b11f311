"""An n-gram language model: interpolated Kneser-Ney, the baseline that neural models had to beat."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from d2lbert.errors import UserError

BEGIN = "<S>"


class KneserNey:
    """Interpolated Kneser-Ney with one discount per order (Kneser and Ney 1995; Chen and Goodman 1999, section 2.7).

    p(w | h) = max(c(h w) - d, 0) / c(h) + d n(h) / c(h) * p(w | h without its first word), where c counts, n(h) is the
    number of different words seen after h, and d is the discount. Below the highest order c(h w) is not how often h w
    occurs but after how many different words. This is the idea of the method: "Francisco" is frequent, but only after
    "San".

    Args:
        sentences: lists of words; words outside the vocabulary must already be replaced.
        vocab_size: V, the number of words that can follow; below the lowest order every word has probability 1 / V.
        order: n of the n-grams.

    Raises:
        UserError: there are no words, or the order is below 1.
    """

    def __init__(self, sentences: Iterable[Sequence[str]], vocab_size: int, order: int = 3) -> None:
        if order < 1:
            raise UserError(f"the order is {order}; it must be at least 1")
        self.order, self.vocab_size = order, vocab_size
        highest: Counter[tuple[str, ...]] = Counter()
        for sentence in sentences:
            words = [BEGIN] * (order - 1) + list(sentence)
            highest.update(tuple(words[end - order : end]) for end in range(order, len(words) + 1))
        if not highest:
            raise UserError("no words to count: give at least one sentence")
        self.counts = [highest]  # counts[k] has n-grams of length order - k
        for _ in range(order - 1):
            # Each distinct (k + 1)-gram is one context in which its last k words occur.
            self.counts.append(Counter(gram[1:] for gram in self.counts[-1]))
        self.discounts = [_discount(counts) for counts in self.counts]
        self.totals: list[dict[tuple[str, ...], int]] = []
        self.followers: list[dict[tuple[str, ...], int]] = []
        for counts in self.counts:
            totals: dict[tuple[str, ...], int] = defaultdict(int)
            followers: dict[tuple[str, ...], int] = defaultdict(int)
            for gram, count in counts.items():
                totals[gram[:-1]] += count
                followers[gram[:-1]] += 1
            self.totals.append(dict(totals))
            self.followers.append(dict(followers))

    def probability(self, word: str, history: Sequence[str]) -> float:
        """Return p(word | history), which depends on the last order - 1 words of the history."""
        context = (*([BEGIN] * (self.order - 1)), *history)[len(history) :]
        probability = 1 / self.vocab_size
        for level in range(self.order - 1, -1, -1):  # from single words up to the longest n-gram
            suffix = context[level:]
            total = self.totals[level].get(suffix, 0)
            if total == 0:
                break  # a context that was never seen adds nothing, and neither do longer ones
            discount = self.discounts[level]
            seen = max(self.counts[level].get((*suffix, word), 0) - discount, 0.0)
            probability = (seen + discount * self.followers[level][suffix] * probability) / total
        return probability

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> float:
        """Return exp of the mean of -log p over all words; the history of a word begins with its sentence.

        Raises:
            UserError: there are no words.
        """
        total, words = 0.0, 0
        for sentence in sentences:
            for position, word in enumerate(sentence):
                total -= math.log(self.probability(word, sentence[max(0, position - self.order + 1) : position]))
                words += 1
        if not words:
            raise UserError("no words to measure: give at least one sentence")
        return math.exp(total / words)


def _discount(counts: Counter[tuple[str, ...]]) -> float:
    """The estimate n1 / (n1 + 2 n2), where n1 n-grams were counted once and n2 twice (Ney et al. 1994)."""
    ones = sum(1 for count in counts.values() if count == 1)
    twos = sum(1 for count in counts.values() if count == 2)
    return ones / (ones + 2 * twos) if ones else 0.5
