"""WordPiece equals transformers.BertTokenizerFast: tokens, ids, segments, offsets, special tokens."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from transformers import BertTokenizerFast

from d2lbert.text import Encoding, WordPiece

# Drawn often, for each has a rule of its own.
SPECIMENS = [
    *("##", "[MASK]", "[SEP]", "[UNK]", "é", "e\u0301", "\u0301", "\u0344", "中", "𠀀", "\u3002", "가", "ß", "İ", "Σ"),
    *("\x00", "\x1f", "\x85", "\ufffd", "\u200b", "\u200d", "\u00ad", "\ue000", "\u2028", "\u3000", "\u00a0", "\r\n"),
    *("\U0001f469\u200d\U0001f467", "👍🏽", "☃\ufe0f", "🇳🇴", "\u0378", "\u2e52", "\u1734", "\u166d", "≠", "½", "ﬁ"),
    *("x" * 100, "x" * 101, "ab" * 60, "'", "$", "-", "\t"),
]


# Without unassigned characters: the library knows the letters of a later Unicode and lower-cases them.
any_character = st.characters(exclude_categories=["Cs", "Cn"])
hard_text = st.lists(st.sampled_from(SPECIMENS) | st.text(any_character, max_size=4) | st.sampled_from("ab CD12,."))
texts = (hard_text.map("".join) | st.text(any_character, max_size=60)).filter(
    lambda text: _reordered(text) == _decomposed(text)
)


def _decomposed(text: str) -> str:
    return "".join(unicodedata.normalize("NFD", character) for character in text)


def _reordered(text: str) -> str:
    """NFD of the text, but with accents in the order in which they stood, for they are dropped in either order."""
    marks = iter([c for c in _decomposed(text) if unicodedata.category(c) == "Mn"])
    return "".join(next(marks) if unicodedata.category(c) == "Mn" else c for c in unicodedata.normalize("NFD", text))


def same(encoding: Encoding, expected: object, index: int, reference: BertTokenizerFast) -> bool:
    """Whether one encoding agrees with row ``index`` of the reference's, in everything but padding."""
    return (
        encoding.ids == expected["input_ids"][index]
        and encoding.tokens == reference.convert_ids_to_tokens(expected["input_ids"][index])
        and encoding.segment_ids == expected["token_type_ids"][index]
        and encoding.offsets == [tuple(pair) for pair in expected["offset_mapping"][index]]
        and encoding.special == [bool(flag) for flag in expected["special_tokens_mask"][index]]
    )


def refer(
    reference: BertTokenizerFast, texts: list[str], pairs: list[str] | None = None, max_length: int | None = None
):
    return reference(
        texts,
        pairs,
        truncation=max_length is not None,
        max_length=max_length,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        return_token_type_ids=True,
    )


def first_difference(encodings: list[Encoding], expected: object, reference: BertTokenizerFast) -> int | None:
    for index, encoding in enumerate(encodings):
        if not same(encoding, expected, index, reference):
            return index
    return None


def test_every_line_is_equal(wordpiece: WordPiece, reference: BertTokenizerFast, lines: list[str]) -> None:
    encodings = [wordpiece.encode(line) for line in lines]
    wrong = first_difference(encodings, refer(reference, lines), reference)
    assert wrong is None, lines[wrong]


def test_every_line_is_equal_with_case_kept(
    cased_wordpiece: WordPiece, cased_reference: BertTokenizerFast, lines: list[str]
) -> None:
    lines = lines[::2]
    encodings = [cased_wordpiece.encode(line) for line in lines]
    wrong = first_difference(encodings, refer(cased_reference, lines), cased_reference)
    assert wrong is None, lines[wrong]


def test_bulk_equals_one_by_one(wordpiece: WordPiece, cased_wordpiece: WordPiece, lines: list[str]) -> None:
    lines = lines[::4]
    for tokenizer in (wordpiece, cased_wordpiece):
        assert tokenizer.encode_batch(lines, max_length=64) == [tokenizer.encode(line, max_length=64) for line in lines]


def test_pairs_are_cut_as_in_the_reference(
    wordpiece: WordPiece, reference: BertTokenizerFast, lines: list[str]
) -> None:
    # Short texts: the library keeps every piece that it cuts off, in all combinations.
    firsts = [line[:150] for line in lines[:600]]
    seconds = [line[:150] for line in lines[1:601]]
    for max_length in (11, 24, 31, None):
        expected = refer(reference, firsts, seconds, max_length)
        encodings = [wordpiece.encode(a, b, max_length) for a, b in zip(firsts, seconds, strict=True)]
        wrong = first_difference(encodings, expected, reference)
        assert wrong is None, (max_length, firsts[wrong], seconds[wrong])
        assert encodings == wordpiece.encode_batch(firsts, seconds, max_length)


@given(text=texts)
def test_any_text_is_equal(
    wordpiece: WordPiece,
    cased_wordpiece: WordPiece,
    reference: BertTokenizerFast,
    cased_reference: BertTokenizerFast,
    text: str,
) -> None:
    for tokenizer, library in ((wordpiece, reference), (cased_wordpiece, cased_reference)):
        assert same(tokenizer.encode(text), refer(library, [text]), 0, library)
        assert tokenizer.encode_batch([text]) == [tokenizer.encode(text)]


@given(a=texts, b=texts, max_length=st.integers(4, 40))
def test_any_pair_is_equal(wordpiece: WordPiece, reference: BertTokenizerFast, a: str, b: str, max_length: int) -> None:
    assert same(wordpiece.encode(a, b, max_length), refer(reference, [a], [b], max_length), 0, reference)
