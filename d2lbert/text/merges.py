"""Learn which neighbouring symbols to join: the loop that byte-pair encoding and WordPiece have in common.

Source: Sennrich, Haddow and Birch 2016, algorithm 1. There each step counts all pairs anew. Here the counts are kept,
and only the words that hold the joined pair are counted again, so ten thousand merges take seconds and not hours.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

Pair = tuple[int, int]


def merge_pairs(
    words: list[list[int]], counts: Sequence[int], join: Callable[[int, int], int], min_count: int = 2
) -> Iterator[Pair]:
    """Yield the most frequent pair of neighbours, join it in all words, and go on. The caller stops when it has enough.

    Among pairs of equal count the one with the smaller ids comes first, so the result does not depend on the order of
    the words.

    Args:
        words: the distinct words, each a list of symbol ids. The list is changed.
        counts: how often each word occurs.
        join: gives the id of the symbol that two symbols become.
        min_count: stop when no pair occurs so often.
    """
    totals: Counter[Pair] = Counter()
    places: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            totals[pair] += counts[index]
            places[pair].add(index)
    queue = [(-total, pair) for pair, total in totals.items()]
    heapq.heapify(queue)
    while queue:
        negative, pair = heapq.heappop(queue)
        if totals[pair] != -negative:
            continue  # The count has changed since; a newer entry is in the queue.
        if totals[pair] < min_count:
            return
        yield pair
        joined = join(*pair)
        changed = set()
        for index in places.pop(pair):
            for old in pairwise(words[index]):
                totals[old] -= counts[index]
                changed.add(old)
            words[index] = replace_pair(words[index], pair, joined)
            for new in pairwise(words[index]):
                totals[new] += counts[index]
                places[new].add(index)
                changed.add(new)
        for other in changed:
            if totals[other] > 0:
                heapq.heappush(queue, (-totals[other], other))


def replace_pair(word: Sequence[int], pair: Pair, joined: int) -> list[int]:
    """Return the word with each occurrence of the pair joined, from left to right: of "a a a" the first two."""
    result = []
    position = 0
    while position < len(word):
        if word[position] == pair[0] and position + 1 < len(word) and word[position + 1] == pair[1]:
            result.append(joined)
            position += 2
        else:
            result.append(word[position])
            position += 1
    return result
