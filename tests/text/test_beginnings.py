"""The beginning of a long text has the pieces of the whole, for texts and for pairs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert.text import WordPiece, beginnings
from d2lbert.text.beginnings import beginning, first_pieces
from d2lbert.text.encoding import Pieces, assemble

# What may stand on either side of a cut: marks that combine, signs that are dropped, special tokens, other spaces.
SPECIMENS = [
    "good",
    "unaffable",
    "x" * 99,
    "é",
    "e\u0301",
    "\u0301",
    "\u0327",
    "中",
    "[MASK]",
    "[",
    "]",
    "##",
    "\x1f",
    "\u200b",
]
SPECIMENS += [
    "\xa0",
    "\u2028",
    "\x85",
    "\ufffd",
    "Σ",
    "İ",
    "가",
    "☃\ufe0f",
    " ",
    " ",
    "\t",
    "\n",
    "\r",
    *".,;:!?。，'-$",
]
texts = st.lists(st.sampled_from(SPECIMENS) | st.text(max_size=3), max_size=30).map("".join)


@pytest.fixture
def cutting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of a dozen characters count as long."""
    monkeypatch.setattr(beginnings, "_CHARACTERS", 1)
    monkeypatch.setattr(beginnings, "_MORE", 3)


def test_a_text_is_cut_before_a_space_or_a_mark(cutting: None) -> None:
    assert beginning("abc def", 2) == "abc def"
    assert beginning("abcde fgh. ijk", 2) == "abcde"
    assert beginning("abcdefgh. ijk", 2) == "abcdefgh"
    assert beginning("abcdefghijk", 2) == "abcdefghijk"


@pytest.mark.usefixtures("cutting")
@pytest.mark.parametrize("lowercase", [True, False])
def test_pieces_are_those_of_the_whole_text(wordpiece: WordPiece, lowercase: bool) -> None:
    tokenizer = WordPiece(wordpiece.vocab, lowercase)

    @given(a=texts, b=texts, count=st.integers(4, 9))
    def check(a: str, b: str, count: int) -> None:
        whole_a, whole_b = tokenizer._bulk_pieces([a, b])
        single = assemble(whole_a, None, count, tokenizer.token_to_id)
        pair = assemble(whole_a, whole_b, count, tokenizer.token_to_id)
        assert tokenizer.encode_batch([a], max_length=count) == [single]
        assert tokenizer.encode_batch([a], [b], max_length=count) == [pair]

    check()


@pytest.mark.usefixtures("cutting")
@pytest.mark.parametrize("sign", [*SPECIMENS, "-", "("], ids=ascii)
def test_any_sign_may_stand_between_the_words(wordpiece: WordPiece, sign: str) -> None:
    for text in (f"good{sign}" * 20, f"{sign} {sign}film" * 20):
        whole = assemble(wordpiece._bulk_pieces([text])[0], None, 5, wordpiece.token_to_id)
        assert wordpiece.encode_batch([text], max_length=5) == [whole]


def test_of_ten_megabytes_little_is_read(wordpiece: WordPiece) -> None:
    read: list[int] = []

    def pieces_of(some: list[str]) -> list:
        read.extend(map(len, some))
        return wordpiece._bulk_pieces(some)

    long = "the river flows into the sea. " * 350_000
    (pieces,), none = first_pieces([long], None, 128, pieces_of)
    assert none is None
    assert len(pieces.ids) >= 128
    assert sum(read) < 10_000
    read.clear()
    (first,), seconds = first_pieces([long], ["a short one"], 128, pieces_of)
    assert (len(first.ids) >= 128, len(seconds or [])) == (True, 1)
    assert sum(read) < 10_000


def test_equal_texts_are_read_once(wordpiece: WordPiece) -> None:
    """A premise is repeated with each of its choices."""
    read: list[str] = []

    def pieces_of(texts: Sequence[str]) -> list[Pieces]:
        read.extend(texts)
        return wordpiece._bulk_pieces(texts)

    premise, choices = "a good film " * 3000, ["good", "unaffable", "good"]
    firsts, seconds = first_pieces([premise] * 3, choices, 8, pieces_of)
    assert sorted(read) == sorted([beginning(premise, 8), "good", "unaffable"])
    assert seconds is not None
    assert firsts[0] == firsts[1] == firsts[2]
    assert seconds[0] == seconds[2] != seconds[1]
