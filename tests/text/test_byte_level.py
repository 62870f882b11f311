"""GPT-2's tokenizer: nothing is unknown, what was encoded comes back, and one line for files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_level_support import tokenizer_json
from hypothesis import given
from hypothesis import strategies as st
from unigram_support import tokenizer_json as unigram_json

from d2lbert import UserError
from d2lbert.text import ByteLevel

TOKENIZER = ByteLevel(tokenizer_json())


def test_merges_are_applied() -> None:
    assert TOKENIZER.tokenize("the bank") == ["the", "Ġbank"]
    encoding = TOKENIZER.encode("the bank")
    assert encoding.offsets == [(0, 3), (3, 8)]
    assert [TOKENIZER.vocab[index] for index in encoding.ids] == encoding.tokens


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    clean = text.encode("utf-8", "ignore").decode()
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == clean


def test_offsets_are_characters_of_the_text_that_was_given() -> None:
    text = "\ud800the\udfff bank"
    encoding = TOKENIZER.encode(text)
    assert encoding.tokens == TOKENIZER.tokenize("the bank")
    assert [text[start:end].strip("\udfff") for start, end in encoding.offsets] == ["the", " bank"]


def test_the_name_of_the_end_is_ordinary_text() -> None:
    ids = TOKENIZER.encode("a<|endoftext|>").ids
    assert TOKENIZER.token_to_id["<|endoftext|>"] not in ids
    assert TOKENIZER.decode(ids) == "a<|endoftext|>"


def test_ids_outside_are_refused() -> None:
    with pytest.raises(UserError, match="id 300 is outside the vocabulary of 300 pieces"):
        TOKENIZER.decode([300])


def test_a_folder_comes_back(tmp_path: Path) -> None:
    TOKENIZER.save_pretrained(tmp_path)
    assert ByteLevel.from_pretrained(tmp_path).vocab == TOKENIZER.vocab


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "holds no tokenizer"),
        (unigram_json(), "is a tokenizer of kind Unigram, not BPE"),
        (tokenizer_json(end="<end>"), r"lacks the token <\|endoftext\|>"),
    ],
)
def test_other_files_are_refused(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        ByteLevel.from_file(path)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with pytest.raises(UserError, match="cannot read"):
        ByteLevel.from_file(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        ByteLevel.from_file(path)
