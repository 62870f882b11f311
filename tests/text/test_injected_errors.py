"""Known mistakes of home-made tokenizers, put into text/wordpiece on purpose: the comparison must see each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from transformers import BertTokenizerFast

from d2lbert.text import WordPiece, encoding, normalization, wordpiece


def _shortest_match(word: str, vocabulary: dict[str, int]) -> list[wordpiece._Piece]:
    pieces, start = [], 0
    for end in range(1, len(word) + 1):
        token = ("##" if start else "") + word[start:end]
        if token in vocabulary:
            pieces.append(wordpiece._Piece(token, start, end))
            start = end
    return pieces if start == len(word) else [wordpiece._Piece("[UNK]", 0, len(word))]


def _without_continuation(word: str, vocabulary: dict[str, int]) -> list[wordpiece._Piece]:
    pieces, start = [], 0
    while start < len(word):
        ends = [end for end in range(len(word), start, -1) if word[start:end] in vocabulary]
        if not ends or len(word) > 100:
            return [wordpiece._Piece("[UNK]", 0, len(word))]
        pieces.append(wordpiece._Piece(word[start : ends[0]], start, ends[0]))
        start = ends[0]
    return pieces


def _first_text_cut_first(a: encoding.Pieces, b: encoding.Pieces | None, room: int) -> tuple:
    return (a.first(room), None) if b is None else (a.first(max(0, room - len(b.ids))), b.first(room))


_is_chinese = normalization.is_chinese
_is_punctuation = normalization.is_punctuation
_is_control = normalization.is_control

BUGS: dict[str, tuple[object, str, object]] = {
    "accents kept": (normalization, "is_mark", lambda character: False),
    "Chinese not split": (normalization, "is_chinese", lambda character: False),
    "kana split like Chinese": (normalization, "is_chinese", lambda c: "\u3040" <= c <= "\u30ff" or _is_chinese(c)),
    "only string.punctuation": (normalization, "is_punctuation", lambda c: c.isascii() and _is_punctuation(c)),
    "only Unicode punctuation": (
        normalization,
        "is_punctuation",
        lambda c: c not in "$+<=>^`" and _is_punctuation(c),
    ),
    "control characters kept": (normalization, "is_control", lambda character: False),
    "format characters kept": (normalization, "is_control", lambda c: c not in "\u200b\u200d" and _is_control(c)),
    "line breaks dropped": (normalization, "is_control", lambda c: c in "\r\n" or _is_control(c)),
    "U+FFFD kept": (normalization, "is_control", lambda c: c != "\ufffd" and _is_control(c)),
    "Unicode of today": (normalization, "_later_characters", frozenset),
    "old mark forgotten": (normalization, "_WAS_MARK", ""),
    "old punctuation forgotten": (normalization, "_WAS_PUNCTUATION", ""),
    "shortest match": (wordpiece, "longest_match", _shortest_match),
    "no continuation mark": (wordpiece, "longest_match", _without_continuation),
    "no limit for long words": (wordpiece, "LONGEST_WORD", 1000),
    "limit one too low": (wordpiece, "LONGEST_WORD", 99),
    "special tokens in the text ignored": (wordpiece, "_SPECIAL_TOKEN", re.compile("(\ue000)")),
    "first text always cut first": (encoding, "truncate", _first_text_cut_first),
}


@pytest.fixture(autouse=True)
def forget_cleaned_characters() -> Iterator[None]:
    normalization.clean_character.cache_clear()
    yield
    normalization.clean_character.cache_clear()


def differences(vocabulary_file: Path, lines: list[str], reference: BertTokenizerFast) -> list[str]:
    tokenizer = WordPiece.from_file(vocabulary_file)
    expected = reference(lines, add_special_tokens=False, return_offsets_mapping=True)
    wrong = []
    for index, line in enumerate(lines):
        pieces = tokenizer._pieces(line)
        if pieces.ids != expected["input_ids"][index] or pieces.offsets != expected["offset_mapping"][index]:
            wrong.append(line)
    return wrong


def cut_differences(vocabulary_file: Path, lines: list[str], reference: BertTokenizerFast) -> list[tuple[str, str]]:
    tokenizer = WordPiece.from_file(vocabulary_file)
    pairs = [(line[:80], reversed_line[:80]) for line, reversed_line in zip(lines, reversed(lines), strict=True)]
    firsts, seconds = map(list, zip(*pairs, strict=True))
    expected = reference(firsts, seconds, truncation=True, max_length=20)["input_ids"]
    return [
        pair for pair, ids in zip(pairs, expected, strict=True) if tokenizer.encode(*pair, max_length=20).ids != ids
    ]


def test_without_a_mistake_nothing_differs(
    vocabulary_file: Path, hard_lines: list[str], reference: BertTokenizerFast
) -> None:
    assert differences(vocabulary_file, hard_lines, reference) == []
    assert cut_differences(vocabulary_file, hard_lines, reference) == []


@pytest.mark.parametrize("name", BUGS)
def test_each_mistake_is_seen(
    name: str,
    vocabulary_file: Path,
    hard_lines: list[str],
    reference: BertTokenizerFast,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, attribute, replacement = BUGS[name]
    monkeypatch.setattr(module, attribute, replacement)
    compare = cut_differences if module is encoding else differences
    assert compare(vocabulary_file, hard_lines, reference), f"the mistake {name!r} was not seen"


Splitter = Callable[[str, bool, bool], list[normalization.Word]]


def _positions_in_cleaned_text(original: Splitter) -> Splitter:
    def changed(text: str, lowercase: bool, strip_accents: bool) -> list[normalization.Word]:
        # Right for plain text, wrong as soon as something is dropped, decomposed or spaced out.
        count = 0
        moved = []
        for word in original(text, lowercase, strip_accents):
            moved.append(word._replace(positions=list(range(count, count + len(word.text)))))
            count += len(word.text) + 1
        return moved

    return changed


def test_offsets_into_the_cleaned_text_are_seen(
    vocabulary_file: Path, hard_lines: list[str], reference: BertTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordpiece, "clean_words", _positions_in_cleaned_text(wordpiece.clean_words))
    assert differences(vocabulary_file, hard_lines, reference)


def test_the_wrong_mode_is_seen(
    vocabulary_file: Path, hard_lines: list[str], cased_reference: BertTokenizerFast
) -> None:
    assert differences(vocabulary_file, hard_lines, cased_reference)
