"""Tokenizers against the reference on strings of every kind of character."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unigram_support import tokenizer_json

from d2lbert.text import Unigram

SURFACE = "4 tokenizers"
transformers = pytest.importorskip("transformers")
FEW, MANY = 2000, 10_000  # strings
WORDS = [
    "the",
    "river",
    "bank",
    "unbanked",
    "The",
    "rivers",
    "a",
    ",",
    "[MASK]",
    "[CLS]",
    "<pad>",
    "<unk>",
    "▁",
    "▁the",
]
SPACES = [" ", "  ", "\t", "\n", "\u00a0", "\u2003", "\u200b", ""]


def strings(count: int, seed: int) -> Iterator[str]:
    """Words of the vocabulary among characters of all planes, accents, controls and lone surrogates."""
    generator = np.random.default_rng(seed)
    highest = (0x80, 0x250, 0x3000, 0x10000, 0x20000, 0x110000)
    for _ in range(count):
        parts = []
        for _ in range(int(generator.integers(0, 9))):
            kind = int(generator.integers(4))
            if kind == 0:
                parts.append(chr(int(generator.integers(highest[int(generator.integers(len(highest)))]))))
            elif kind == 1:
                parts.append(SPACES[int(generator.integers(len(SPACES)))])
            else:
                parts.append(WORDS[int(generator.integers(len(WORDS)))])
        yield "".join(parts)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Unigram, Any]:
    """Our tokenizer, and that of transformers, of one file."""
    folder = tmp_path_factory.mktemp("unigram")
    ours = Unigram(tokenizer_json())
    ours.save_pretrained(folder)
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return ours, transformers.PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), **special)


def _compare(both: tuple[Unigram, Any], count: int, seed: int) -> None:
    """Ids, segments, offsets and special tokens of texts, cut texts, pairs and cut pairs."""
    ours, reference = both
    texts = [text.encode("utf-8", "ignore").decode() for text in strings(count, seed)]
    for begin in range(0, len(texts), 1000):
        firsts = texts[begin : begin + 1000]
        seconds = firsts[::-1]
        for pairs, longest in ((None, None), (None, 6), (seconds, None), (seconds, 9)):
            options = {"truncation": "longest_first", "max_length": longest} if longest else {}
            expected = reference(
                firsts, pairs, return_offsets_mapping=True, return_token_type_ids=True,
                return_special_tokens_mask=True, **options,
            )  # fmt: skip
            for row, encoding in enumerate(ours.encode_batch(firsts, pairs, longest)):
                assert encoding.ids == expected["input_ids"][row], firsts[row]
                assert encoding.segment_ids == expected["token_type_ids"][row], firsts[row]
                assert encoding.offsets == expected["offset_mapping"][row], firsts[row]
                assert [int(x) for x in encoding.special] == expected["special_tokens_mask"][row], firsts[row]


@pytest.mark.parametrize("seed", range(4))
def test_unigram_equals_transformers(both: tuple[Unigram, Any], seed: int) -> None:
    _compare(both, FEW // 4, seed)


@pytest.mark.slow
def test_unigram_equals_transformers_on_many(both: tuple[Unigram, Any], pytestconfig: pytest.Config) -> None:
    """``make soak`` takes 100,000."""
    for seed in range(10, 10 + max(1, int(pytestconfig.getoption("--soak")) // MANY)):
        _compare(both, MANY, seed)


def test_a_text_alone_is_what_it_is_in_a_batch(both: tuple[Unigram, Any]) -> None:
    texts = list(strings(300, 30))
    assert [both[0].encode(text) for text in texts] == both[0].encode_batch(texts)


def test_the_strings_hold_every_kind_of_character() -> None:
    kinds = {unicodedata.category(character) for text in strings(FEW, 0) for character in text}
    assert kinds >= {"Ll", "Lu", "Lo", "Mn", "Zs", "Cc", "Cf", "Cs", "Po", "So", "Cn"}


def test_the_longest_words_come_back(both: tuple[Unigram, Any], tmp_path: Path) -> None:
    text = "river" * 20_000
    (encoding,) = both[0].encode_batch([text])
    assert both[0].decode(encoding.ids) == text
