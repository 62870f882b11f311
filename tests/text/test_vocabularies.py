"""Vocabularies of words and of characters, and the simple word splitter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.text import CharacterVocabulary, Vocabulary, count_words, split_words

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


@given(st.text())
def test_characters_seen_in_learning_come_back(text: str) -> None:
    vocabulary = CharacterVocabulary([text])
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert len(vocabulary) == 2 + len(set(text))


def test_a_character_not_seen_is_lost() -> None:
    vocabulary = CharacterVocabulary(["abba"], min_count=2)
    assert vocabulary.encode("abc") == [2, 3, 1]
    assert vocabulary.decode([2, 3, 1, 0]) == "ab\ufffd"


def test_words_are_split_at_spaces_and_signs() -> None:
    assert split_words("It's well-known (2018)!") == ["it's", "well-known", "(", "2018", ")", "!"]
    assert split_words("Ünïcode – OK", lowercase=False) == ["Ünïcode", "–", "OK"]
    assert split_words(" \n") == []


def test_words_are_counted_over_lines() -> None:
    assert count_words(["The cat.", "the hat"]) == {"the": 2, "cat": 1, ".": 1, "hat": 1}
