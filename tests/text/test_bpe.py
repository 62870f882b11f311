"""Byte-pair encoding: by hand on a few words, against the `tokenizers` library, back from bytes for every text."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from d2lbert import UserError
from d2lbert.text import BytePairEncoding
from d2lbert.text.bpe import _PART, count_parts

TOY = ["low low low low low lower lower newest newest newest newest newest newest widest widest widest"]


def learned_slowly(lines: list[str], merges: int) -> list[tuple[bytes, bytes]]:
    """The algorithm as the paper states it: count every pair anew at each step."""
    words = {tuple(bytes([value]) for value in part.encode()): count for part, count in count_parts(lines).items()}
    number = {bytes([value]): value for value in range(256)}
    result = []
    for _ in range(merges):
        totals: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                totals[pair] += count
        best = min(totals, key=lambda pair: (-totals[pair], number[pair[0]], number[pair[1]]))
        result.append(best)
        number.setdefault(best[0] + best[1], len(number))
        words = {joined(word, best): count for word, count in words.items()}
    return result


def joined(word: tuple[bytes, ...], pair: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    result: list[bytes] = []
    for symbol in word:
        # A piece that was just joined is longer than pair[0], unless pair[0] itself is meant: then it is not joined on.
        if result and (result[-1], symbol) == pair and not getattr(result[-1], "fresh", False):
            result[-1] = _Fresh(result[-1] + symbol)
        else:
            result.append(symbol)
    return tuple(bytes(symbol) for symbol in result)


class _Fresh(bytes):
    fresh = True


def pairs_of_pieces(encoding: BytePairEncoding) -> list[tuple[bytes, bytes]]:
    return [(encoding.pieces[left], encoding.pieces[right]) for left, right in encoding.merges]


def test_the_first_merges_of_a_toy_text_are_the_most_frequent_pairs() -> None:
    # "es" and "st" occur nine times each; of equal counts the smaller bytes win, so e+s comes first, then es+t.
    merges = pairs_of_pieces(BytePairEncoding.learn(TOY, 3))
    assert merges == [(b"e", b"s"), (b"es", b"t"), (b"l", b"o")]


def test_incremental_counts_equal_counting_anew(lines: list[str]) -> None:
    sample = [*TOY, *lines[:150], "aaaa aaa aaaaaaa aa abab ababab"]
    assert pairs_of_pieces(BytePairEncoding.learn(sample, 150)) == learned_slowly(sample, 150)


def test_the_order_of_the_lines_does_not_matter(lines: list[str]) -> None:
    sample = lines[:300]
    assert BytePairEncoding.learn(sample, 200).merges == BytePairEncoding.learn(sample[::-1], 200).merges


def library_character(value: int) -> str:
    """A byte as one character, in the order of the bytes, so that the library breaks ties as we do."""
    return chr(0x4E00 + value)


def library_part(part: str) -> str:
    return "".join(map(library_character, part.encode()))


def test_learning_and_applying_equal_the_library(lines: list[str]) -> None:
    text = lines[:4000]
    bpe = BytePairEncoding.learn(text, 1500)
    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=len(bpe.pieces),
        min_frequency=2,
        initial_alphabet=[library_character(value) for value in range(256)],
        show_progress=False,
    )
    spelled = [" ".join(map(library_part, _PART.findall(line))) for line in text]
    library.train_from_iterator(spelled, trainer)
    merges = json.loads(library.to_str())["model"]["merges"]
    expected = [tuple(bytes(ord(character) - 0x4E00 for character in piece) for piece in pair) for pair in merges]
    assert pairs_of_pieces(bpe) == expected
    for line, encoded in zip(text[:1000], library.encode_batch(spelled[:1000]), strict=True):
        assert [library_part_of(piece) for piece in map(bpe.pieces.__getitem__, bpe.encode(line))] == encoded.tokens


def library_part_of(piece: bytes) -> str:
    return "".join(map(library_character, piece))


@pytest.fixture(scope="module")
def encoding() -> BytePairEncoding:
    words = "the theme of the thesis: naïve café 北京 北方 👍👍 \n\n  two  spaces\t\ttabs 'n' 2,500.00"
    return BytePairEncoding.learn([words] * 3, 60, special_tokens=("[PAD]", "[BOS]"))


@given(text=st.text(st.characters()) | st.text(" \n\tath'é北👍_1.\u0301\x00\ud800"))
def test_decoding_gives_back_every_text(encoding: BytePairEncoding, text: str) -> None:
    ids = encoding.encode(text)
    assert encoding.decode(ids) == text
    assert all(2 <= index < len(encoding) for index in ids)


def test_decoding_gives_back_every_line(encoding: BytePairEncoding, lines: list[str]) -> None:
    assert [encoding.decode(encoding.encode(line)) for line in lines] == lines


def test_pieces_are_shown_and_half_characters_as_bytes() -> None:
    encoding = BytePairEncoding.learn(TOY, 20)
    assert encoding.tokenize("lowest low é") == ["low", "est", " low", " ", "\\xc3", "\\xa9"]


def test_special_tokens_come_first_and_are_never_read_from_text(encoding: BytePairEncoding) -> None:
    assert (encoding.special_id("[PAD]"), encoding.special_id("[BOS]")) == (0, 1)
    assert encoding.piece(1) == "[BOS]"
    assert min(encoding.encode("[BOS][PAD]")) >= 2
    assert encoding.decode([1, *encoding.encode("the theme"), 0, 0]) == "the theme"
    with pytest.raises(UserError, match=r"no special token '\[EOS\]'"):
        encoding.special_id("[EOS]")


def test_bytes_that_make_no_character_are_marked(encoding: BytePairEncoding) -> None:
    assert encoding.decode([2 + 0xE2]) == "\ufffd"


def test_the_first_merges_are_an_encoding_of_their_own(encoding: BytePairEncoding, lines: list[str]) -> None:
    whole = BytePairEncoding.learn(lines[:100], 120, special_tokens=("[PAD]",))
    assert whole.first(50).merges == BytePairEncoding.learn(lines[:100], 50).merges
    assert whole.first(50).special_tokens == ("[PAD]",)
    assert len(whole.first(0)) == 257


def test_one_piece_made_in_two_ways_is_one_piece() -> None:
    # a+b, b+c, ab+c, a+bc: the last two make the same bytes.
    encoding = BytePairEncoding([(97, 98), (98, 99), (256, 99), (97, 257), (258, 100)])
    assert encoding.pieces[256:] == [b"ab", b"bc", b"abc", b"abcd"]
    assert encoding.tokenize("abcd") == ["abcd"]


def test_a_pair_that_was_learned_twice_keeps_its_first_place() -> None:
    a, b, c = b"abc"
    encoding = BytePairEncoding([(a, b), (b, c), (a, b)])
    assert encoding.tokenize("abc") == ["ab", "c"]


def test_a_pair_seen_once_is_not_joined() -> None:
    assert BytePairEncoding.learn(["abcdef"], 100).merges == []
    assert len(BytePairEncoding.learn(["abcdef"], 100, min_count=1).merges) == 5


def test_saved_and_loaded_it_is_the_same(encoding: BytePairEncoding, tmp_path: Path, lines: list[str]) -> None:
    encoding.save(tmp_path / "bpe.json")
    back = BytePairEncoding.load(tmp_path / "bpe.json")
    assert (back.merges, back.special_tokens, back.pieces) == (
        encoding.merges,
        encoding.special_tokens,
        encoding.pieces,
    )
    assert [back.encode(line) for line in lines[:50]] == [encoding.encode(line) for line in lines[:50]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no byte-pair encoding"),
        ('{"merges": [[1, 2]]}', "is no byte-pair encoding"),
        ('{"merges": [[1, "x"]], "special_tokens": []}', "is no byte-pair encoding"),
        ('{"merges": [[97, 98], [300, 97]], "special_tokens": []}', "merge 1 joins pieces 300 and 97"),
        ('{"merges": [], "special_tokens": ["a", "a"]}', "given twice"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "bpe.json").write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=words) as error:
        BytePairEncoding.load(tmp_path / "bpe.json")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*bpe\.json"):
        BytePairEncoding.load(tmp_path / "bpe.json")


@pytest.mark.parametrize("index", [-1, 1_000_000])
def test_an_id_outside_the_vocabulary_is_refused(encoding: BytePairEncoding, index: int) -> None:
    with pytest.raises(UserError, match="outside the vocabulary"):
        encoding.decode([index])


def test_a_long_run_without_spaces_is_encoded(encoding: BytePairEncoding) -> None:
    text = "the" * 40_000
    # Encoding a part takes time in proportion to its square, so no part may be long.
    assert max(map(len, _PART.findall(text + " " * 999 + "!" * 999))) <= 65
    assert encoding.decode(encoding.encode(text)) == text
