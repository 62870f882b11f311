"""GluonNLP's files, damaged, forged or of another kind, as ``--model``: one line, quickly, and nothing left behind."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import Ended
from params_support import array_header, file_of, gluonnlp_shapes, vocab_json, write_sparsely

from d2lbert.config import BertConfig

SURFACE = "3d GluonNLP's files"
Attack, Refused = Callable[..., Ended], Callable[..., None]
STEM = "bert_12_768_12_openwebtext_book_corpus_wiki_en_uncased"
SPECIAL = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = SPECIAL + [f"##{number}" for number in range(BertConfig().vocab_size - len(SPECIAL))]
ONE = array_header((1,), 0) + bytes(4)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The weights, all zero, with their vocabulary beside them; half a gigabyte that the disk does not store."""
    params = tmp_path / f"{STEM}.params"
    write_sparsely(params, gluonnlp_shapes(BertConfig()))
    (tmp_path / f"{STEM}.vocab").write_text(json.dumps(vocab_json(VOCAB)))
    return params


@pytest.fixture
def asked(files: Path, attack: Attack, tmp_path: Path) -> Callable[..., Ended]:
    """Ask the model; without reading the weights, 1 GiB and 20 seconds must be enough to refuse it."""
    cache = {"D2LBERT_CACHE": str(tmp_path / "cache")}

    def ask(model: Path = files) -> Ended:
        words = ("predict", "fill_mask", "--model", model, "--text", "a [MASK]")
        return attack(*words, environment=cache, memory=1, seconds=20)

    return ask


def nothing_is_left(folder: Path) -> None:
    """No weights in the cache, whole or not."""
    assert not list((folder / "cache").rglob("*.safetensors*"))


PARAMS: dict[str, bytes] = {
    "nothing": b"",
    "a page of HTML": b"<html>" * 10,
    "a zip file": b"PK\x03\x04" + bytes(100),
    "no arrays": file_of([], []),
    "one array": file_of([ONE], ["pooler.bias"]),
    "2^63 arrays": struct.pack("<QQQ", 0x112, 0, 2**63) + bytes(100),
    "an array of 2^62 numbers": file_of([array_header((2**62,), 0)], ["pooler.bias"]),
    "an array of 10^6 by 10^6": file_of([array_header((10**6, 10**6), 0)], ["pooler.bias"]),
    "a negative shape": file_of([array_header((-4, -4), 0) + bytes(64)], ["pooler.bias"]),
    "2^31 dimensions": struct.pack("<QQQIii", 0x112, 0, 1, 0xF993FAC9, 0, 2**31 - 1) + bytes(100),
    "a sparse array": file_of([array_header((1,), 0, storage=1) + bytes(4)], ["pooler.bias"]),
    "names of another library": file_of([ONE], ["bert.pooler.dense.bias"]),
    "a name with a line break": file_of([ONE], ["a\nb"]),
    "a name of 4,000 letters": file_of([ONE], ["a" * 4000]),
    "no names": file_of([ONE], []),
}


@pytest.mark.parametrize("name", PARAMS)
def test_params(name: str, files: Path, asked: Callable[..., Ended], refused: Refused) -> None:
    files.write_bytes(PARAMS[name])
    refused(asked(), STEM)
    nothing_is_left(files.parent)


@pytest.mark.parametrize("size", [24, 1000, 100_000_000, -1])
def test_params_that_are_cut(size: int, files: Path, asked: Callable[..., Ended], refused: Refused) -> None:
    with files.open("rb+") as stream:
        stream.truncate(size % files.stat().st_size)
    refused(asked(), "is damaged")
    nothing_is_left(files.parent)


def test_a_published_name_and_other_bytes(files: Path, asked: Callable[..., Ended], refused: Refused) -> None:
    published = files.rename(files.with_name(f"{STEM}-a56e2401.params"))
    files.with_suffix(".vocab").rename(published.with_suffix(".vocab"))
    refused(asked(published), "is not what GluonNLP published under this name")
    nothing_is_left(files.parent)


VOCABS: dict[str, Any] = {
    "nothing": "",
    "a list": "[]",
    "brackets 200,000 deep": "[" * 200_000,
    "no ids": "{}",
    "ids with a hole": json.dumps({"token_to_idx": {"[UNK]": 10**12}}),
    "ids that are texts": json.dumps({"token_to_idx": {"[UNK]": "0"}}),
    "pieces of two lines": json.dumps(vocab_json([*VOCAB[:-1], "a\nb"])),
    "a lone surrogate": json.dumps(vocab_json([*VOCAB[:-1], "\ud800"])),
    "a piece too few": json.dumps(vocab_json(VOCAB[:-1])),
    "a piece too many": json.dumps(vocab_json([*VOCAB, "more"])),
    "no [MASK]": json.dumps(vocab_json(["mask" if piece == "[MASK]" else piece for piece in VOCAB])),
    "other tokens": json.dumps({**vocab_json(VOCAB), "unknown_token": "<unk>"}),
}


@pytest.mark.parametrize("name", VOCABS)
def test_vocab(name: str, files: Path, asked: Callable[..., Ended], refused: Refused) -> None:
    files.with_suffix(".vocab").write_text(VOCABS[name])
    refused(asked())
    nothing_is_left(files.parent)


def test_vocab_that_is_none(files: Path, asked: Callable[..., Ended], refused: Refused) -> None:
    vocab = files.with_suffix(".vocab")
    vocab.write_bytes(b"\xff\xfe\x00")
    refused(asked(), "is not valid JSON")
    vocab.unlink()
    refused(asked(), "has no vocabulary beside it")
    vocab.mkdir()
    refused(asked(), "has no vocabulary beside it")
    files.unlink()
    files.mkdir()
    refused(asked())
