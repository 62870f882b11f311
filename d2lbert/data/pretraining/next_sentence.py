"""Choose pairs of texts for next sentence prediction (Devlin et al. 2019, section 3.1 and appendix A.2).

A pair (A, B) is made of whole sentences. Half of the time B is what follows A in its document; half of the time it is
from another document. All documents are walked through at once, so each step of a plan takes a few array operations.

In the paper's program the two kinds of pairs differ in more than meaning: near the end of a document true pairs are
shorter, and wrong pairs are cut more often. Here a wrong B is the true B of another pair, of the same length or a token
or two shorter, so that neither lengths nor cuts give the answer away.

Shape legend: S sentences, N documents, E pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from d2lbert.errors import UserError

IS_NEXT, IS_RANDOM = 0, 1  # the labels, numbered as in the released models
NO_LABEL = -100  # the label of a single text

_NEIGHBOURS = 64  # the number of pairs with a B of about the same length in which a wrong B is looked for
_ROUNDS = 8


class Pairs(NamedTuple):
    """A plan of E pairs: each array is (E,). Starts and ends are indices of tokens; ends are exclusive.

    Fields:
        a_start, a_end: the first text.
        b_start, b_end: the second text.
        labels: 0 where B follows A, 1 where it is from another document, -100 where there is no B.
    """

    a_start: np.ndarray
    a_end: np.ndarray
    b_start: np.ndarray
    b_end: np.ndarray
    labels: np.ndarray

    def take(self, indices: np.ndarray) -> Pairs:
        """Return the pairs with these indices, in their order."""
        return Pairs(*(array[indices] for array in self))


def plan_pairs(
    sentences: np.ndarray, documents: np.ndarray, room: int, random: np.random.Generator, short_share: float = 0.1
) -> Pairs:
    """Plan pairs over all documents; each sentence is used about once, as part of an A or of a true B.

    A single sentence that is left at the end of a document cannot be an A, since nothing follows it. So a document of
    one sentence gives no pair.

    Args:
        sentences: (S + 1,) the token at which each sentence begins, and the end of the last.
        documents: (N + 1,) the sentence at which each document begins, and the end of the last.
        room: the largest number of tokens of A and B together, at least 2. A pair of two longer sentences is cut: A at
            its beginning, B at its end, so that the rest of A still touches the rest of a true B.
        random: the generator that makes all random choices.
        short_share: the fraction of pairs with a random smaller size, so that the model meets short inputs.

    Raises:
        UserError: fewer than two documents have two sentences.
    """
    first, middle, last, owner, labels = _walk(sentences, documents, room, random, short_share)
    if len(np.unique(owner)) < 2:
        raise UserError("next sentence prediction needs two documents of two sentences or more: give more text")
    lengths = sentences[last] - sentences[middle]
    partner = np.arange(len(owner))
    wrong = np.flatnonzero(labels == IS_RANDOM)
    partner[wrong] = _partners(lengths, owner, random)[wrong]
    a_start, a_end = sentences[first], sentences[middle]
    b_start, b_end = sentences[middle][partner], sentences[last][partner]
    kept_a, kept_b = _cut(a_end - a_start, b_end - b_start, room)
    return Pairs(a_end - kept_a, a_end, b_start, b_start + kept_b, labels)


def plan_texts(sentences: np.ndarray, documents: np.ndarray, room: int) -> Pairs:
    """Plan single texts of as many whole sentences as fit, for pretraining without next sentence prediction.

    Each sentence is used once. Arguments are those of :func:`plan_pairs`. B is empty; a sentence longer than ``room``
    is cut at its end.
    """
    current, end = documents[:-1].copy(), documents[1:]  # (N,)
    starts, ends = [], []
    while len(active := np.flatnonzero(end > current)):
        current, end = current[active], end[active]
        stop = np.searchsorted(sentences, sentences[current] + room, side="right") - 1
        stop = np.clip(stop, current + 1, end)
        starts.append(sentences[current])
        ends.append(np.minimum(sentences[stop], sentences[current] + room))
        current = stop
    start, finish = np.concatenate(starts), np.concatenate(ends)
    return Pairs(start, finish, start, start, np.full(len(start), NO_LABEL))


def _walk(
    sentences: np.ndarray, documents: np.ndarray, room: int, random: np.random.Generator, short_share: float
) -> tuple[np.ndarray, ...]:
    """Walk through all documents at once, one pair of each document at a time.

    Returns:
        Five arrays (E,): the sentences at which A begins, B begins and B ends; the document; the label.
    """
    current, end = documents[:-1].copy(), documents[1:]  # (N,)
    owner = np.arange(len(current))
    steps = []
    while len(active := np.flatnonzero(end - current >= 2)):
        current, end, owner = current[active], end[active], owner[active]
        target = np.full(len(current), room)
        short = random.random(len(current)) < short_share
        target[short] = random.integers(2, room + 1, size=int(short.sum()))
        # As many sentences as fit, but at least two; A is a random number of them, B the rest.
        stop = np.searchsorted(sentences, sentences[current] + target, side="right") - 1
        stop = np.clip(stop, current + 2, end)
        middle = current + 1 + (random.random(len(current)) * (stop - current - 1)).astype(np.int64)
        labels = np.where(random.random(len(current)) < 0.5, IS_NEXT, IS_RANDOM)
        steps.append((current, middle, stop, owner, labels))
        # After a wrong pair the true B has not been seen: it goes into the next one.
        current = np.where(labels == IS_NEXT, stop, middle)
    if not steps:
        return tuple(np.zeros(0, dtype=np.int64) for _ in range(5))
    return tuple(np.concatenate(column) for column in zip(*steps, strict=True))


def _partners(lengths: np.ndarray, owner: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Return for each pair (E,) a pair of another document whose B has about the same length or is shorter."""
    order = np.lexsort((random.random(len(lengths)), lengths))  # by length; equal ones in random order
    owners = owner[order]
    ranks = np.arange(len(order))
    partner_ranks = np.full(len(order), -1)
    for _ in range(_ROUNDS):
        unmatched = np.flatnonzero(partner_ranks < 0)
        guess = unmatched - random.integers(1, _NEIGHBOURS + 1, size=len(unmatched))
        valid = (guess >= 0) & (owners[np.maximum(guess, 0)] != owners[unmatched])
        partner_ranks[unmatched[valid]] = guess[valid]
    # The few shortest are left, and those whose neighbours are all of their own document: these take the next shorter
    # pair of another document or, where there is none, the next longer.
    change = np.append(owners[1:] != owners[:-1], True)
    begin = np.maximum.accumulate(np.where(np.append(True, change[:-1]), ranks, 0))  # of the run of one document
    end = np.minimum.accumulate(np.where(change, ranks, len(ranks))[::-1])[::-1] + 1
    partner_ranks = np.where(partner_ranks >= 0, partner_ranks, np.where(begin > 0, begin - 1, end))
    partner = np.empty_like(ranks)
    partner[order] = order[partner_ranks]
    return partner


def _cut(a: np.ndarray, b: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lengths to which texts of lengths a and b are cut: the longer text is cut first."""
    shorter = np.minimum(np.minimum(a, b), room // 2)
    fits = a + b <= room
    kept_a = np.where(a > b, np.minimum(a, room - shorter), np.minimum(a, shorter))
    kept_b = np.where(a > b, np.minimum(b, shorter), np.minimum(b, room - shorter))
    return np.where(fits, a, kept_a), np.where(fits, b, kept_b)
