"""Splitting into words and counting them: signs, accents that stand alone, scripts with vowel signs."""

from __future__ import annotations

import unicodedata

import pytest

from d2lbert.text import count_words, split_words


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_do_not_break_a_word(form: str) -> None:
    words = ["José", "García's", "café-bar", "."]
    text = unicodedata.normalize(form, "José García's café-bar.")
    assert split_words(text, lowercase=False) == [unicodedata.normalize(form, word) for word in words]


def test_vowel_signs_belong_to_their_letters() -> None:
    assert split_words("हिन्दी में।") == ["हिन्दी", "में", "।"]


def test_signs_stand_alone_and_case_is_lowered() -> None:
    assert split_words("It's (well-known), 3%!") == ["it's", "(", "well-known", ")", ",", "3", "%", "!"]


def test_words_are_split_at_spaces_and_signs() -> None:
    assert split_words("It's well-known (2018)!") == ["it's", "well-known", "(", "2018", ")", "!"]
    assert split_words("Ünïcode – OK", lowercase=False) == ["Ünïcode", "–", "OK"]
    assert split_words(" \n") == []


def test_words_are_counted_over_lines() -> None:
    assert count_words(["The cat.", "the hat"]) == {"the": 2, "cat": 1, ".": 1, "hat": 1}
