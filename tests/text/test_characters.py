"""Text as characters: a vocabulary of them, and ELMo's rows of bytes by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.text import CharacterVocabulary
from d2lbert.text.characters import SENTENCE_BEGIN, SENTENCE_END, WordCharacters


@given(st.text())
def test_characters_seen_in_learning_come_back(text: str) -> None:
    vocabulary = CharacterVocabulary([text])
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert len(vocabulary) == 2 + len(set(text))


def test_a_character_not_seen_is_lost() -> None:
    vocabulary = CharacterVocabulary(["abba"], min_count=2)
    assert vocabulary.encode("abc") == [2, 3, 1]
    assert vocabulary.decode([2, 3, 1, 0]) == "ab\ufffd"


def test_a_word_is_its_bytes_between_two_markers() -> None:
    row = WordCharacters(6).word("né")
    # Every id is raised by one: n = 110, é = 195 and 169, begin 258, end 259, filled up with 260.
    assert row.tolist() == [259, 111, 196, 170, 260, 261]


def test_a_long_word_is_cut_and_keeps_its_end() -> None:
    assert WordCharacters(5).word("abcdef").tolist() == [259, 98, 99, 100, 260]


def test_markers_of_a_sentence_are_no_text() -> None:
    characters = WordCharacters(4)
    assert characters.word(SENTENCE_BEGIN).tolist() == [259, 257, 260, 261]
    assert characters.word(SENTENCE_END).tolist() == [259, 258, 260, 261]


def test_half_a_surrogate_pair_is_a_question_mark() -> None:
    assert WordCharacters(4).word("\ud83d").tolist() == WordCharacters(4).word("?").tolist()


def test_a_batch_is_filled_up_with_zeros() -> None:
    characters = WordCharacters(4)
    ids, mask = characters.batch([["a"], ["a", "b"]])
    assert ids.shape == (2, 4, 4)
    assert mask.tolist() == [[True, True, True, False], [True] * 4]
    assert not ids[0, 3].any()
    sentence = [characters.word(word) for word in (SENTENCE_BEGIN, "a", "b", SENTENCE_END)]
    assert np.array_equal(ids[1], sentence)


def test_what_cannot_be_is_one_line() -> None:
    with pytest.raises(UserError, match="max_characters is 2; a character and two markers need 3"):
        WordCharacters(2)
    with pytest.raises(UserError, match="there is no sentence"):
        WordCharacters().batch([])
