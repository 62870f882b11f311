"""A language model that counts: interpolated Kneser-Ney, the baseline that neural models had to beat."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from d2lbert.errors import UserError

BEGIN = "<S>"


class KneserNey:
    """Interpolated Kneser-Ney with one discount an order (Kneser and Ney 1995; Chen and Goodman 1999, section 2.7).

    p(w | h) = max(c(h w) - d, 0) / c(h) + d n(h) / c(h) * p(w | h without its first word), where c counts, n(h) is the
    number of different words seen after h, and d is the discount. Below the highest order c(h w) is not how often h w
    occurs but in how many different places: after how many different words. That is the idea of the method: "Francisco"
    is frequent, but only after "San".

    Args:
        sentences: lists of words; words outside ``vocabulary`` must already be replaced.
        vocab_size: V, the number of words that can follow; the lowest order ends in 1 / V.
        order: n of the n-grams.

    Raises:
        UserError: no sentence, or an order below 1.
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
            # Every different (k + 1)-gram is one place where its last k words occur.
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
        """Return p(word | history); only the last order - 1 words of the history count."""
        context = (*([BEGIN] * (self.order - 1)), *history)[len(history) :]
        found = 1 / self.vocab_size
        for level in range(self.order - 1, -1, -1):  # from single words up to the longest n-gram
            short = context[level:]
            total = self.totals[level].get(short, 0)
            if total == 0:
                break  # a context that was never seen has nothing to add, and neither have longer ones
            discount = self.discounts[level]
            seen = max(self.counts[level].get((*short, word), 0) - discount, 0.0)
            found = (seen + discount * self.followers[level][short] * found) / total
        return found

    def perplexity(self, sentences: Iterable[Sequence[str]]) -> float:
        """Return exp of the mean of -log p over all words of the sentences, each read from its beginning."""
        total, words = 0.0, 0
        for sentence in sentences:
            for place, word in enumerate(sentence):
                total -= math.log(self.probability(word, sentence[max(0, place - self.order + 1) : place]))
                words += 1
        if not words:
            raise UserError("no words to measure: give at least one sentence")
        return math.exp(total / words)


def _discount(counts: Counter[tuple[str, ...]]) -> float:
    """The estimate n1 / (n1 + 2 n2), where n1 n-grams were counted once and n2 twice (Ney et al. 1994)."""
    ones = sum(1 for count in counts.values() if count == 1)
    twos = sum(1 for count in counts.values() if count == 2)
    return ones / (ones + 2 * twos) if ones else 0.5
