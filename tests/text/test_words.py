"""Splitting into words: accents that stand alone, and scripts with vowel signs."""

from __future__ import annotations

import unicodedata

import pytest

from d2lbert.text import split_words


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_accents_do_not_break_a_word(form: str) -> None:
    words = ["José", "García's", "café-bar", "."]
    text = unicodedata.normalize(form, "José García's café-bar.")
    assert split_words(text, lowercase=False) == [unicodedata.normalize(form, word) for word in words]


def test_vowel_signs_belong_to_their_letters() -> None:
    assert split_words("हिन्दी में।") == ["हिन्दी", "में", "।"]


def test_signs_stand_alone_and_case_is_lowered() -> None:
    assert split_words("It's (well-known), 3%!") == ["it's", "(", "well-known", ")", ",", "3", "%", "!"]
