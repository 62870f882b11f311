"""Learn which neighbouring symbols to join: the loop that byte-pair encoding and WordPiece have in common.

Source: Sennrich, Haddow and Birch 2016, algorithm 1. There each step counts all pairs again. Here the counts are kept,
and only words with the joined pair are counted again, so ten thousand merges take seconds and not hours.
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
    """Yield the most frequent pair of neighbours, join it in all words, and repeat until the caller stops.

    Of pairs with equal counts the one with the smaller ids comes first, so the result does not depend on the order of
    the words.

    Args:
        words: the distinct words, each a list of symbol ids. The list is changed.
        counts: how often each word occurs.
        join: returns the id of the symbol that replaces two symbols.
        min_count: stop when every pair occurs less often.
    """
    totals: Counter[Pair] = Counter()
    words_with: defaultdict[Pair, set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            totals[pair] += counts[index]
            words_with[pair].add(index)
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
        changed_pairs = set()
        for index in words_with.pop(pair):
            for old in pairwise(words[index]):
                totals[old] -= counts[index]
                changed_pairs.add(old)
            words[index] = replace_pair(words[index], pair, joined)
            for new in pairwise(words[index]):
                totals[new] += counts[index]
                words_with[new].add(index)
                changed_pairs.add(new)
        for changed_pair in changed_pairs:
            if totals[changed_pair] > 0:
                heapq.heappush(queue, (-totals[changed_pair], changed_pair))


def replace_pair(word: Sequence[int], pair: Pair, joined: int) -> list[int]:
    """Return the word with each occurrence of the pair joined, from left to right: in "a a a" the first two."""
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
