"""Merging neighbours: each step by hand, ties, overlaps, the end."""

from __future__ import annotations

import pytest

from d2lbert.text.merges import merge_pairs, replace_pair


def test_each_step_by_hand() -> None:
    """Letters a = 0, b = 1, c = 2 in "abc" three times and "bc" twice; what is joined gets the next number."""
    words = [[0, 1, 2], [1, 2]]
    numbers = iter(range(3, 9))
    steps = merge_pairs(words, [3, 2], lambda left, right: next(numbers))
    assert next(steps) == (1, 2)  # five times, a b only three
    assert next(steps) == (0, 3)  # the pair a b is gone
    assert words == [[0, 3], [3]]  # the words are changed when the next pair is asked for
    assert list(steps) == []
    assert words == [[4], [3]]


@pytest.mark.parametrize("words", [[[2, 3], [0, 1]], [[0, 1], [2, 3]]])
def test_of_equal_counts_the_smaller_ids_come_first(words: list[list[int]]) -> None:
    assert next(merge_pairs(words, [4, 4], lambda left, right: 9)) == (0, 1)


def test_a_pair_that_grows_overtakes_the_others() -> None:
    """After a b is joined, ab c occurs four times: more than d e, which was first after it at the start."""
    words, numbers = [[0, 1, 2], [3, 4]], iter((5, 6, 7))
    steps = merge_pairs(words, [4, 3], lambda left, right: next(numbers))
    assert [next(steps), next(steps), next(steps)] == [(0, 1), (5, 2), (3, 4)]


def test_overlapping_pairs_are_joined_from_the_left() -> None:
    assert replace_pair([7, 7, 7, 1, 7, 7], (7, 7), 9) == [9, 7, 1, 9]
    assert replace_pair([1, 2], (2, 1), 9) == [1, 2]


def test_merging_ends_when_nothing_is_frequent() -> None:
    words = [[0, 1, 2], [0, 1]]
    assert list(merge_pairs(words, [1, 1], lambda left, right: 9)) == [(0, 1)]
    assert words == [[9, 2], [9]]
