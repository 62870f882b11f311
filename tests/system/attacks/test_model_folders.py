"""Model folders that are damaged, forged or of another kind: one line, quickly, and never a wrong answer."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fork_server import Ended
from safetensors.numpy import load_file, save_file
from safetensors_support import needs_complex_numbers

SURFACE = "3a model folders"
Attack, Refused = Callable[..., Ended], Callable[..., None]
WORD, QUERY = "bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.attention.self.query.weight"


@pytest.fixture
def model(classifier: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(classifier, folder)
    return folder


@pytest.fixture
def predicted(model: Path, attack: Attack) -> Callable[[], Ended]:
    """Ask the model; 1 GiB and 20 seconds must be enough to answer or refuse."""
    return lambda: attack("predict", "classification", "--model", model, "--text", "good", memory=1, seconds=20)


CONFIG: dict[str, dict[str, Any]] = {
    "no layers": {"num_hidden_layers": 0},
    "minus one layer": {"num_hidden_layers": -1},
    "a layer too few": {"num_hidden_layers": 1},
    "a layer too many": {"num_hidden_layers": 3},
    "a billion layers": {"num_hidden_layers": 10**9},
    "a width of a million": {"hidden_size": 10**6},
    "a width of zero": {"hidden_size": 0},
    "another width": {"hidden_size": 64},
    "a width of 5,000 digits": {"hidden_size": int("9" * 4000)},
    "heads that do not divide": {"num_attention_heads": 3},
    "no heads": {"num_attention_heads": 0},
    "a vocabulary of 10^12": {"vocab_size": 10**12},
    "a vocabulary of 2^63": {"vocab_size": 2**63},
    "an empty vocabulary": {"vocab_size": 0},
    "positions of 10^11": {"max_position_embeddings": 10**11},
    "negative positions": {"max_position_embeddings": -5},
    "minus one segment": {"type_vocab_size": -1},
    "no segment": {"type_vocab_size": 0},
    "a layer of 10^12": {"intermediate_size": 10**12},
    "a negative epsilon": {"layer_norm_eps": -1},
    "an epsilon that is no number": {"layer_norm_eps": float("nan")},
    "an infinite epsilon": {"layer_norm_eps": float("inf")},
    "an unknown activation": {"hidden_act": "swish"},
    "an activation that is a list": {"hidden_act": ["gelu"]},
    "dropout of one": {"hidden_dropout_prob": 1.0},
    "a size that is a text": {"hidden_size": "128"},
    "a size that is true": {"num_hidden_layers": True},
    "a size that is null": {"vocab_size": None},
    "a size that is a table": {"vocab_size": {"a": 1}},
    "another architecture": {"model_type": "roberta"},
    "a model type that is a list": {"model_type": ["bert"]},
    "relative positions": {"position_embedding_type": "relative_key"},
    "a decoder": {"is_decoder": True},
    "another head": {"architectures": ["BertForTokenClassification"]},
    "architectures that are a table": {"architectures": {"a": 1}},
    "architectures that are a number": {"architectures": 3},
    "labels that are a list": {"id2label": ["neg", "pos"]},
    "labels with a gap": {"id2label": {"0": "neg", "2": "pos"}},
    "labels that are numbers of words": {"id2label": {"zero": "neg", "one": "pos"}},
    "one label": {"id2label": {"0": "neg"}},
    "three labels": {"id2label": {"0": "a", "1": "b", "2": "c"}},
    "two labels of one name": {"id2label": {"0": "pos", "1": "pos"}},
}
CONFIG_TEXTS = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "brackets 200,000 deep": "[" * 200_000,
    "not UTF-8": b"\xff",
    "a number of 5,000 digits": '{"vocab_size": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("name", CONFIG)
def test_config(name: str, model: Path, predicted: Callable[[], Ended], refused: Refused) -> None:
    path = model / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **CONFIG[name]}))
    refused(predicted())


@pytest.mark.parametrize("name", CONFIG_TEXTS)
def test_config_that_is_none(name: str, model: Path, predicted: Callable[[], Ended], refused: Refused) -> None:
    content = CONFIG_TEXTS[name]
    (model / "config.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(predicted())


def _tensors(change: Callable[[dict[str, np.ndarray]], Any]) -> Callable[[Path], None]:
    def forge(path: Path) -> None:
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return forge


def _bytes(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(change(path.read_bytes())) and None  # type: ignore[return-value]


def _everywhere(value: float) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors.update({name: np.full_like(array, value) for name, array in tensors.items()})


def _one(value: float) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors[QUERY].__setitem__((3, 5), value)


def _of_type(kind: Any) -> Callable[[dict[str, np.ndarray]], None]:
    return lambda tensors: tensors.update({name: array.astype(kind) for name, array in tensors.items()})


def _header(change: dict[str, Any]) -> Callable[[bytes], bytes]:
    """Change fields of a tensor's entry in the header."""

    def forge(content: bytes) -> bytes:
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        header[QUERY] = {**header[QUERY], **change}
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + content[8 + length :]

    return forge


WEIGHTS: dict[str, Callable[[Path], None]] = {
    "gone": lambda path: path.unlink(),
    "nothing": _bytes(lambda content: b""),
    "cut in half": _bytes(lambda content: content[: len(content) // 2]),
    "one byte short": _bytes(lambda content: content[:-1]),
    "one byte too many": _bytes(lambda content: content + b"x"),
    "a page of HTML": _bytes(lambda content: b"<html>Please log in</html>"),
    "a pickle": _bytes(lambda content: b"\x80\x04\x95" + content[:100]),
    "zeros": _bytes(lambda content: bytes(len(content))),
    "a header of 2^60 bytes": _bytes(lambda content: struct.pack("<Q", 2**60) + content[8:]),
    "a header that is no JSON": _bytes(lambda content: content[:8] + b"x" + content[9:]),
    "offsets behind the end": _bytes(_header({"data_offsets": [0, 10**12]})),
    "offsets in reverse": _bytes(_header({"data_offsets": [100, 0]})),
    "a shape that does not fit": _bytes(_header({"shape": [10**6, 10**6]})),
    "an unknown type": _bytes(_header({"dtype": "F7"})),
    "a tensor gone": _tensors(lambda tensors: tensors.pop(QUERY)),
    "the head gone": _tensors(lambda tensors: tensors.pop("classifier.weight")),
    "a tensor turned": _tensors(lambda tensors: tensors.update({WORD: np.ascontiguousarray(tensors[WORD].T)})),
    "a layer more": _tensors(lambda tensors: tensors.update({QUERY.replace(".0.", ".7."): tensors[QUERY]})),
    "other names": _tensors(lambda tensors: [tensors.update({f"x.{n}": tensors.pop(n)}) for n in list(tensors)]),
    "no tensors": _tensors(lambda tensors: tensors.clear()),
    "one NaN": _tensors(_one(np.nan)),
    "one infinity": _tensors(_one(np.inf)),
    "NaN everywhere": _tensors(_everywhere(np.nan)),
    "bytes": _tensors(_of_type(np.int8)),
    "whole numbers": _tensors(_of_type(np.int64)),
    "truth values": _tensors(_of_type(np.bool_)),
    "complex numbers": _tensors(_of_type(np.complex64)),
    "a tensor under two names": _tensors(
        lambda tensors: tensors.update({QUERY.removeprefix("bert."): tensors[QUERY] + 1})
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(name: str, model: Path, predicted: Callable[[], Ended], refused: Refused) -> None:
    if name == "complex numbers":
        needs_complex_numbers()
    WEIGHTS[name](model / "model.safetensors")
    refused(predicted())


VOCABULARIES: dict[str, Callable[[list[str]], list[str]]] = {
    "nothing": lambda pieces: [],
    "cut": lambda pieces: pieces[:1000],
    "a piece more": lambda pieces: [*pieces, "onemorepiece"],
    "a piece twice": lambda pieces: [*pieces[:-1], pieces[10]],
    "no [UNK]": lambda pieces: ["x" if piece == "[UNK]" else piece for piece in pieces],
    "a page of HTML": lambda pieces: ["<html>", "</html>"],
    "blank lines": lambda pieces: [""] * 10,
}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabulary(name: str, model: Path, predicted: Callable[[], Ended], refused: Refused) -> None:
    pieces = (model / "vocab.txt").read_text().splitlines()
    (model / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARIES[name](pieces)))
    refused(predicted())


@pytest.mark.parametrize("content", [b"\xff\xfe", None], ids=["not UTF-8", "gone"])
def test_vocabulary_that_is_none(
    content: bytes | None, model: Path, predicted: Callable[[], Ended], refused: Refused
) -> None:
    (model / "vocab.txt").unlink()
    if content is None:
        (model / "tokenizer.json").unlink()  # which would stand in
    else:
        (model / "vocab.txt").write_bytes(content)
    refused(predicted())


TOKENIZERS = {
    "no JSON": "{",
    "a list": "[]",
    "brackets 200,000 deep": "[" * 200_000,
    "accents that are a text": '{"strip_accents": "x"}',
    "a case that is a text": '{"do_lower_case": "false"}',
    "Chinese in one piece": '{"tokenize_chinese_chars": false}',
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokenizer_config(name: str, model: Path, predicted: Callable[[], Ended], refused: Refused) -> None:
    (model / "tokenizer_config.json").write_text(TOKENIZERS[name])
    refused(predicted())


@pytest.mark.parametrize("task", ["tagging", "question_answering", "multiple_choice"])
def test_another_task(task: str, model: Path, attack: Attack, refused: Refused) -> None:
    seconds = ("--pair", "b", "--pair", "c") if task == "multiple_choice" else ("--pair", "b")
    refused(attack("predict", task, "--model", model, "--text", "a", *(() if task == "tagging" else seconds)))


def test_half_precision_is_read(model: Path, predicted: Callable[[], Ended], accepted: Callable[[Ended], None]) -> None:
    _tensors(_of_type(np.float16))(model / "model.safetensors")
    accepted(predicted())
