"""Character n-grams, their hash, and the rows of a word: by hand and by published values."""

from __future__ import annotations

import pytest

from d2lbert import UserError
from d2lbert.text.subwords import SubwordTable, character_ngrams, fnv1a


def test_ngrams_by_hand() -> None:
    """The example of Bojanowski et al. (2017), section 3.2, and a word shorter than the longest n-gram."""
    assert character_ngrams("where", 3, 3) == ["<wh", "whe", "her", "ere", "re>"]
    assert character_ngrams("as", 3, 6) == ["<as", "<as>", "as>"]
    assert character_ngrams("", 3, 6) == []


def test_hash_of_known_strings() -> None:
    """Published test values of 32-bit FNV-1a."""
    assert fnv1a("") == 0x811C9DC5
    assert fnv1a("a") == 0xE40C292C
    assert fnv1a("foobar") == 0xBF9CF968


def test_table_rows() -> None:
    table = SubwordTable(["[PAD]", "cat", "a"], buckets=10, shortest=3, longest=4)
    buckets = [3 + fnv1a(ngram) % 10 for ngram in ("<ca", "<cat", "cat", "cat>", "at>")]
    assert len(table) == 13
    assert table.row("cat") == [1, *buckets]
    assert table.row("cats")[0] >= 3
    rows = table.rows()
    assert rows.tolist() == [[0] * 6, [1, *buckets], [2, 3 + fnv1a("<a>") % 10, 0, 0, 0, 0]]


@pytest.mark.parametrize(("buckets", "shortest", "longest"), [(0, 3, 6), (5, 4, 3), (5, 0, 2)])
def test_unusable_table(buckets: int, shortest: int, longest: int) -> None:
    with pytest.raises(UserError, match="subwords"):
        SubwordTable(["[PAD]"], buckets, shortest, longest)


def test_bytes_from_0x80_on_are_widened_as_signed_numbers() -> None:
    """One step by hand: (offset basis xor 0xFFFFFFC3) times the prime, then the same with 0xFFFFFFA9; é is C3 A9."""
    value = 0x811C9DC5
    for byte in (0xFFFFFFC3, 0xFFFFFFA9):
        value = (value ^ byte) * 0x01000193 % 2**32
    assert fnv1a("é") == value
