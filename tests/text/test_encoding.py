"""The input of BERT put together from pieces: special tokens, segments, and what is cut."""

from __future__ import annotations

import tracemalloc

import pytest

from d2lbert import UserError
from d2lbert.text.encoding import (
    CLS,
    SEP,
    CompactEncoding,
    Pieces,
    assemble,
    assemble_batch,
    offsets_before,
    truncate,
    without_surrogates,
)

IDS = {CLS: 101, SEP: 102}


def pieces(letters: str) -> Pieces:
    """A piece for each letter, with its position in the alphabet as its id."""
    return Pieces([ord(letter) - 96 for letter in letters], list(letters), [(i, i + 1) for i in range(len(letters))])


def test_a_text_by_hand() -> None:
    encoding = assemble(pieces("ab"), None, None, IDS)
    assert encoding.ids == [101, 1, 2, 102]
    assert encoding.tokens == [CLS, "a", "b", SEP]
    assert encoding.segment_ids == [0, 0, 0, 0]
    assert encoding.offsets == [(0, 0), (0, 1), (1, 2), (0, 0)]
    assert encoding.special == [True, False, False, True]


def test_a_pair_by_hand() -> None:
    encoding = assemble(pieces("ab"), pieces("c"), 6, IDS)
    assert encoding.ids == [101, 1, 2, 102, 3, 102]
    assert encoding.segment_ids == [0, 0, 0, 0, 1, 1]
    assert encoding.special == [True, False, False, True, False, True]
    assert encoding.tokens_between(0, 1) == [1]
    assert encoding.tokens_between(0, 1, segment=1) == [4]


@pytest.mark.parametrize(
    ("first", "second", "room", "expected"),
    [
        ("abcdef", "xyz", 9, ("abcdef", "xyz")),
        ("abcdef", "xyz", 7, ("abcd", "xyz")),  # the longer one first
        ("abc", "uvwxyz", 7, ("abc", "uvwx")),
        ("abcdef", "uvwxyz", 6, ("abc", "uvw")),
        ("abcdefg", "uvwxyz", 7, ("abcd", "uvw")),  # the odd piece stays with the longer text
        ("abcdef", "uvwxyz", 7, ("abc", "uvwx")),  # and with the second of two equal ones
        ("abcdef", "", 3, ("abc", "")),
    ],
)
def test_the_longer_text_is_cut_first(first: str, second: str, room: int, expected: tuple[str, str]) -> None:
    a, b = truncate(pieces(first), pieces(second), room)
    assert b is not None
    assert ("".join(a.tokens), "".join(b.tokens)) == expected


def test_a_text_alone_is_cut_at_its_end() -> None:
    a, b = truncate(pieces("abcdef"), None, 2)
    assert (a.tokens, b) == (["a", "b"], None)


def test_parts_of_pieces() -> None:
    assert pieces("abcd").between(1, 3) == Pieces([2, 3], ["b", "c"], [(1, 2), (2, 3)])
    assert pieces("abcd").first(2) == pieces("ab")


def test_no_room_is_one_line() -> None:
    with pytest.raises(UserError, match=r"max_length 2 is too small: \[CLS\] and \[SEP\] take 2 tokens; give 3"):
        assemble(pieces("a"), None, 2, IDS)
    with pytest.raises(UserError, match="take 3 tokens; give 4 or more"):
        assemble(pieces("a"), pieces("b"), 3, IDS)


def test_many_at_once() -> None:
    firsts, seconds = [pieces("a"), pieces("bc")], [pieces("x"), pieces("y")]
    assert assemble_batch(firsts, None, None, IDS) == [assemble(text, None, None, IDS) for text in firsts]
    assert assemble_batch(firsts, seconds, 5, IDS)[1].tokens == [CLS, "b", SEP, "y", SEP]
    with pytest.raises(UserError, match="2 texts but 1 pairs"):
        assemble_batch(firsts, seconds[:1], None, IDS)


def test_a_compact_encoding_reads_like_the_encoding() -> None:
    encoding = assemble(pieces("ab"), pieces("c"), 6, IDS)
    compact = CompactEncoding(encoding)
    assert compact.unpacked() == encoding
    assert len(compact) == len(encoding) == 6
    for field in ("ids", "segment_ids", "tokens", "offsets", "special"):
        assert getattr(compact, field) == getattr(encoding, field)
    assert [type(flag) for flag in compact.special] == [bool] * 6
    assert compact.tokens_between(0, 1, segment=1) == [4]
    assert compact == CompactEncoding(encoding)
    assert hash(compact) == hash(CompactEncoding(encoding))
    assert compact != CompactEncoding(assemble(pieces("ab"), None, 6, IDS))


def test_a_compact_encoding_takes_a_fraction_of_the_memory() -> None:
    def fresh(number: int) -> Pieces:  # as a tokenizer makes them: strings and pairs of their own for each text
        places = range(number, number + 40)
        return Pieces(
            [1000 + i for i in places], [f"piece{i % 50}" for i in places], [(300 + i, 301 + i) for i in places]
        )

    def bytes_of(compact: bool) -> int:
        tracemalloc.start()
        texts = [assemble(fresh(number), None, None, IDS) for number in range(200)]
        kept = [CompactEncoding(text) for text in texts] if compact else texts
        del texts
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return used // len(kept)

    assert bytes_of(compact=False) > 4 * bytes_of(compact=True)


def test_offsets_count_what_was_taken_out() -> None:
    text = "\ud800ab\udfff\ud800c\ud800"
    assert without_surrogates(text) == "abc"
    offsets = [(0, 0), (0, 1), (1, 3), (0, 3), (2, 3)]
    assert offsets_before(text, "abc", offsets) == [(0, 0), (1, 2), (2, 6), (1, 6), (5, 6)]
    assert offsets_before("abc", "abc", offsets) == offsets
