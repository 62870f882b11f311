"""Vocabularies of words: order, size, special tokens."""

from __future__ import annotations

import warnings

import pytest

from d2lbert import UserError
from d2lbert.text import Vocabulary
from d2lbert.text.vocab import check_vocabulary

COUNTS = {"the": 5, "cat": 2, "sat": 2, "rare": 1}


def test_frequent_words_come_first_and_ties_are_alphabetical() -> None:
    vocabulary = Vocabulary(dict(reversed(COUNTS.items())))
    assert vocabulary.words == ["[PAD]", "[UNK]", "the", "cat", "sat", "rare"]
    assert vocabulary.ids(["sat", "on", "the"]) == [4, 1, 2]
    assert vocabulary.lookup([2, 3, 1]) == ["the", "cat", "[UNK]"]
    assert "cat" in vocabulary
    assert "dog" not in vocabulary
    assert len(vocabulary) == 6


def test_rare_words_and_surplus_words_are_left_out() -> None:
    assert Vocabulary(COUNTS, min_count=2).words == ["[PAD]", "[UNK]", "the", "cat", "sat"]
    assert Vocabulary(COUNTS, max_size=3).words == ["[PAD]", "[UNK]", "the"]


def test_a_word_that_looks_like_a_special_token_is_no_second_one() -> None:
    assert Vocabulary({"[PAD]": 9, "a": 1}).words == ["[PAD]", "[UNK]", "a"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"special_tokens": ("[UNK]", "[UNK]")}, "given twice"),
        ({"special_tokens": ("[PAD]",)}, "lack the unknown token"),
        ({"max_size": 1}, "no room for 2 special tokens"),
    ],
)
def test_impossible_vocabularies_are_refused(arguments: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Vocabulary(COUNTS, **arguments)


@pytest.mark.parametrize("index", [-1, 6])
def test_an_id_outside_is_refused(index: int) -> None:
    with pytest.raises(UserError, match="outside the vocabulary of 6 words"):
        Vocabulary(COUNTS).word(index)


def test_a_vocabulary_that_fits_a_model_or_is_cut_off() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_vocabulary(30522, 30522, "here")
    for pieces in (30521, 30522 - 127):
        with pytest.warns(UserWarning, match=rf"^here: .* the last {30522 - pieces} are padding, or the vocabulary"):
            check_vocabulary(pieces, 30522, "here")
    with pytest.raises(UserError, match=r"^here: the tokenizer has 1,000 pieces, the model has 8,192 embeddings: .*"):
        check_vocabulary(1000, 8192, "here")
    with pytest.raises(UserError, match=r"are not of one model$"):
        check_vocabulary(30523, 30522, "here")
