"""Kneser-Ney: probabilities sum to one, equal the formula, and know that Francisco follows San."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.text.ngrams import KneserNey

TEXT = [line.split() for line in ["the cat sat .", "the cat ran .", "a dog sat on the mat .", "the dog ran ."]]
WORDS = sorted({word for line in TEXT for word in line})


@given(
    st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=6), min_size=1, max_size=6),
    st.lists(st.sampled_from("abcd"), max_size=4),
    st.integers(1, 4),
)
def test_probabilities_sum_to_one(sentences: list[list[str]], history: list[str], order: int) -> None:
    model = KneserNey(sentences, vocab_size=5, order=order)
    assert sum(model.probability(word, history) for word in "abcde") == pytest.approx(1)


def test_a_bigram_equals_the_formula_by_hand() -> None:
    model = KneserNey(TEXT, vocab_size=10, order=2)
    # c(the ., .) = 4: cat twice, mat, dog. Three different followers. Bigrams counted once: 9, twice: 3.
    bigrams = [(line[i - 1] if i else "<S>", line[i]) for line in TEXT for i in range(len(line))]
    ones = sum(1 for gram in set(bigrams) if bigrams.count(gram) == 1)
    twos = sum(1 for gram in set(bigrams) if bigrams.count(gram) == 2)
    discount = ones / (ones + 2 * twos)
    contexts = {word: len({gram for gram in bigrams if gram[1] == word}) for word in WORDS}
    low_ones, low_twos = (sum(1 for count in contexts.values() if count == frequency) for frequency in (1, 2))
    low = low_ones / (low_ones + 2 * low_twos)
    single = (max(contexts["cat"] - low, 0) + low * len(contexts) / 10) / sum(contexts.values())
    expected = (2 - discount + discount * 3 * single) / 4
    assert model.probability("cat", ["the"]) == pytest.approx(expected)


def test_a_word_of_one_context_is_not_expected_elsewhere() -> None:
    sentences = [["San", "Francisco"]] * 20 + [["in", "town"], ["of", "town"], ["to", "town"], ["one", "house"]]
    model = KneserNey(sentences, vocab_size=20, order=2)
    assert model.probability("Francisco", ["San"]) > 0.9
    assert model.probability("town", ["unseen"]) > model.probability("Francisco", ["unseen"])


def test_more_context_lowers_the_perplexity_of_the_text_itself() -> None:
    perplexities = [KneserNey(TEXT, len(WORDS), order).perplexity(TEXT) for order in (1, 2, 3)]
    assert perplexities[0] > perplexities[1] > perplexities[2] > 1
    assert perplexities[0] < len(WORDS)
    uniform = KneserNey([["x"]], vocab_size=7, order=1)
    assert uniform.perplexity([["y"]]) == pytest.approx(1 / uniform.probability("y", []))
    assert math.isfinite(uniform.perplexity([["y"]]))


def test_bad_input_is_one_line() -> None:
    with pytest.raises(UserError, match="at least 1"):
        KneserNey(TEXT, 10, order=0)
    with pytest.raises(UserError, match="no words to count"):
        KneserNey([], 10)
    with pytest.raises(UserError, match="no words to measure"):
        KneserNey(TEXT, 10).perplexity([])
