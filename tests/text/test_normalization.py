"""Cleaning and splitting: each rule by hand, where characters stood, and all of Unicode against the library."""

from __future__ import annotations

import sys
import unicodedata
from pathlib import Path

import pytest

from d2lbert.text import WordPiece
from d2lbert.text.normalization import (
    Word,
    clean_character,
    clean_words,
    is_chinese,
    is_control,
    is_mark,
    is_punctuation,
)


def test_words_know_where_their_characters_stood() -> None:
    assert clean_words(" Ünder\u200bdog!") == [Word("underdog", [1, 2, 3, 4, 5, 7, 8, 9]), Word("!", [10])]
    assert clean_words("") == clean_words(" \t\u3000\u200b") == []


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("A", "a"),
        ("É", "e"),
        ("\u0301", ""),
        ("\ufffd", ""),
        ("\u00a0", " "),
        ("\n", " "),
        ("中", " 中 "),
        ("カ", "カ"),
        ("$", " $ "),
        ("ß", "ß"),
        ("Σ", "σ"),
        ("가", "\u1100\u1161"),
    ],
)
def test_what_a_character_becomes(character: str, expected: str) -> None:
    assert clean_character(character, lowercase=True, strip_accents=True) == expected


def test_case_and_accents_are_kept_where_asked() -> None:
    assert clean_character("É", lowercase=False, strip_accents=False) == "É"
    assert clean_character("É", lowercase=True, strip_accents=False) == "é"
    assert clean_character("É", lowercase=False, strip_accents=True) == "E"


def test_classes_of_characters() -> None:
    assert [is_control(c) for c in "\t\x00\u200b\ue000a"] == [False, True, True, True, False]
    assert [is_chinese(c) for c in "一龥㐀𠀀カ가a"] == [True, True, True, True, False, False, False]
    assert [is_mark(c) for c in "\u0301\u1734ea"] == [True, True, False, False]
    assert [is_punctuation(c) for c in "$^`~。—a1 €"] == [True] * 6 + [False] * 4


def test_characters_later_than_unicode_8_are_letters() -> None:
    """Today U+1DF6 is a mark, U+2E52 punctuation and U+0890 a format character; the library knows none of them."""
    assert not is_mark("\u1df6")
    assert not is_punctuation("\u2e52")
    assert not is_control("\u0890")


@pytest.mark.parametrize("lowercase", [True, False])
def test_each_character_of_unicode_is_equal(vocabulary_file: Path, lowercase: bool) -> None:
    """Each character between two letters: what it becomes, and where it splits the word.

    Where case is kept, a letter stays as it is or, a Chinese one, stands alone, and that has nothing to do with case:
    a sample of letters is enough. Of unassigned characters and those for private use it always is: each is one case in
    the code.
    """
    tokenizer = WordPiece.from_file(vocabulary_file, lowercase)
    steps = {"Co": 97, "Cs": 0, "Cn": 0} if lowercase else {"Co": 97, "Cs": 0, "Cn": 97, "Lo": 31, "Ll": 7, "Lu": 7}
    # Split only, without a vocabulary: the whole of Unicode would fill the memory with encodings.
    normalizer = tokenizer._bulk.normalizer
    pre_tokenizer = tokenizer._bulk.pre_tokenizer
    wrong = []
    for code in range(sys.maxunicode + 1):
        step = steps.get(unicodedata.category(chr(code)), 1)
        if not step or code % step:
            continue
        text = f"a{chr(code)}b"
        expected = [word for word, _ in pre_tokenizer.pre_tokenize_str(normalizer.normalize_str(text))]
        if [word.text for word in clean_words(text, lowercase, lowercase)] != expected:
            wrong.append(hex(code))
    assert wrong == []
