"""tokenizer.json of a BERT: what transformers writes is read, what is written transformers and tokenizers read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import AutoTokenizer, BertTokenizerFast

from d2lbert.errors import UserError
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.text.tokenizer_json import has_word_pieces, longest_text, read_word_pieces

PIECES = [*SPECIAL_TOKENS, "un", "##able", "é", "e", "Z", "z"]


def saved(folder: Path, tokenizer: WordPiece) -> Path:
    """Save a tokenizer and leave only what transformers 5 writes."""
    tokenizer.save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    return folder


def changed(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    path.write_text(json.dumps(values), encoding="utf-8")


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("accents", [None, False])
def test_what_transformers_saves_is_read(
    vocabulary_file: Path, tmp_path: Path, lowercase: bool, accents: bool | None, hard_lines: list[str]
) -> None:
    theirs = BertTokenizerFast.from_pretrained(
        vocabulary_file.parent, do_lower_case=lowercase, strip_accents=accents, model_max_length=300
    )
    theirs.save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").unlink(missing_ok=True)  # transformers 4 writes it
    ours = WordPiece.from_pretrained(tmp_path)
    assert ours.vocab == WordPiece.from_file(vocabulary_file).vocab
    assert ours.model_max_length == 300
    for line in hard_lines:
        assert ours.encode(line).ids == theirs(line)["input_ids"]


def test_transformers_and_tokenizers_read_what_is_written(
    wordpiece: WordPiece, tmp_path: Path, hard_lines: list[str]
) -> None:
    wordpiece = WordPiece(wordpiece.vocab, lowercase=False)
    wordpiece.model_max_length = 12
    folder = saved(tmp_path / "model", wordpiece)
    theirs, library = AutoTokenizer.from_pretrained(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
    for line in hard_lines:
        ours = wordpiece.encode(line, "a Pair", max_length=None)
        assert theirs(line, "a Pair")["input_ids"] == ours.ids
        assert library.encode(line, "a Pair").ids == ours.ids
        assert library.encode(line, "a Pair").type_ids == ours.segment_ids
        assert theirs(line)["input_ids"] == library.encode(line).ids == wordpiece.encode(line).ids
    assert theirs.model_max_length == 12
    assert len(theirs("one word " * 50, truncation=True)["input_ids"]) == 12
    assert library.decode(wordpiece.encode("unaffable").ids) == "unaffable"


def test_a_vocabulary_goes_before_and_settings_are_combined_as_transformers_does(tmp_path: Path) -> None:
    folder = saved(tmp_path, WordPiece(PIECES, lowercase=False, strip_accents=True))
    (folder / "tokenizer_config.json").unlink()
    alone = WordPiece.from_pretrained(folder)
    assert (alone.lowercase, alone.strip_accents, alone.model_max_length) == (False, True, None)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": null}')
    overruled = WordPiece.from_pretrained(folder)
    assert (overruled.lowercase, overruled.strip_accents) == (True, True)
    assert WordPiece.from_pretrained(folder, lowercase=False).lowercase is False
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in SPECIAL_TOKENS))
    assert WordPiece.from_pretrained(folder).vocab == list(SPECIAL_TOKENS)


def test_the_kind_of_a_folder(tmp_path: Path) -> None:
    assert not has_word_pieces(tmp_path)
    folder = saved(tmp_path, WordPiece(PIECES))
    assert has_word_pieces(folder)
    changed(folder / "tokenizer.json", lambda values: values["model"].update(type="BPE"))
    assert not has_word_pieces(folder)
    (folder / "vocab.txt").write_text("")
    assert has_word_pieces(folder)


@pytest.mark.parametrize(
    ("length", "read"), [(512, 512), (10**30, None), (0, None), ("512", None), (None, None), (5.5, None)]
)
def test_the_longest_text_is_a_length(length: Any, read: int | None) -> None:
    assert longest_text({"model_max_length": length}) == read


def remove_piece(values: dict[str, Any]) -> None:
    del values["model"]["vocab"]["un"]


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "another kind": (lambda values: values["model"].update(type="Unigram"), "of kind Unigram, not WordPiece"),
    "no model": (lambda values: values.update(model=[]), "of kind None, not WordPiece"),
    "another sign": (
        lambda values: values["model"].update(continuing_subword_prefix="@@"),
        "asks for model.continuing_subword_prefix='@@'; only BERT's own, '##', is offered",
    ),
    "longer words": (lambda values: values["model"].update(max_input_chars_per_word=9), "chars_per_word=9; only"),
    "no cleaning": (lambda values: values.update(normalizer=None), "asks for normalizer.type=None"),
    "other words": (
        lambda values: values["pre_tokenizer"].update(type="Whitespace"),
        "pre_tokenizer.type='Whitespace'",
    ),
    "Chinese": (lambda values: values["normalizer"].update(handle_chinese_chars=False), "handle_chinese_chars=False"),
    "case in words": (lambda values: values["normalizer"].update(lowercase="no"), "lowercase is 'no'; give true or"),
    "a gap": (remove_piece, "has no piece with the id 5, but '##able' with 6: restore the file"),
    "no pieces": (lambda values: values["model"].update(vocab=["a"]), "has no table from pieces to ids"),
    "names for ids": (lambda values: values["model"].update(vocab={"a": "0"}), "has no table from pieces to ids"),
    "an added token": (
        lambda values: values["added_tokens"].append({"id": 99, "content": "<user>"}),
        "adds the token '<user>' to the vocabulary, which is not offered; use another model",
    ),
    "added tokens in words": (lambda values: values.update(added_tokens="[PAD]"), "added_tokens is no list"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_works_otherwise_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    change, words = REFUSED[name]
    path = saved(tmp_path, WordPiece(PIECES)) / "tokenizer.json"
    changed(path, change)
    with pytest.raises(UserError, match=re.escape(words)) as error:
        read_word_pieces(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_a_damaged_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = saved(tmp_path, WordPiece(PIECES)) / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json .*restore the file") as error:
        WordPiece.from_pretrained(tmp_path)
    assert "\n" not in str(error.value)


def test_tokens_that_other_files_add_to_a_vocab_txt_are_refused(tmp_path: Path) -> None:
    WordPiece(PIECES).save_pretrained(tmp_path)
    special = {token: index for index, token in enumerate(SPECIAL_TOKENS)}
    (tmp_path / "added_tokens.json").write_text(json.dumps(special))
    assert WordPiece.from_pretrained(tmp_path).vocab == PIECES  # the special tokens are named again, and no more
    (tmp_path / "added_tokens.json").write_text(json.dumps({**special, "<user>": len(PIECES)}))
    with pytest.raises(UserError, match=r"added_tokens\.json adds the token '<user>' to the vocabulary, which is not"):
        WordPiece.from_pretrained(tmp_path)
    (tmp_path / "added_tokens.json").unlink()
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for token, refused in (("[MASK]", False), ("<user>", True)):
        settings["added_tokens_decoder"] = {"4": {"content": token, "special": True}}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        with pytest.raises(UserError, match=r"tokenizer_config\.json adds the token") if refused else nullcontext():
            WordPiece.from_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    changed(tmp_path / "tokenizer.json", REFUSED["an added token"][0])
    with pytest.raises(UserError, match=r"tokenizer\.json adds the token '<user>' to the vocabulary, which is not"):
        WordPiece.from_pretrained(tmp_path)
