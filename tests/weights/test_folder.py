"""Model folders: names, shapes and blocks that must fit, files that are damaged, nothing half-written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.weights.folder import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    check_tensors,
    read_tensors,
    select,
    write_folder,
    write_tensors,
)


def test_what_is_written_is_read_in_float32_under_canonical_names(tmp_path: Path) -> None:
    tensors = {"bert.pooler.dense.bias": np.array([0.5, -2.0], dtype=np.float16), "count": np.array([7])}
    write_folder(tmp_path / "model", BertConfig(hidden_size=24), tensors, {"id2label": {"0": "no"}})
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [CONFIG_FILE, WEIGHTS_FILE]
    loaded = read_tensors(tmp_path / "model")
    assert loaded["pooler.dense.bias"].dtype == np.float32
    assert loaded["pooler.dense.bias"].tolist() == [0.5, -2.0]
    assert loaded["count"].dtype == np.int64
    config = json.loads((tmp_path / "model" / CONFIG_FILE).read_text())
    assert (config["hidden_size"], config["id2label"]) == (24, {"0": "no"})
    with safe_open(tmp_path / "model" / WEIGHTS_FILE, "numpy") as file:
        assert file.metadata() == {"format": "pt"}  # transformers asks for it


def test_a_transposed_array_is_written_as_it_looks(tmp_path: Path) -> None:
    write_tensors(tmp_path, {"a": np.arange(6, dtype=np.float32).reshape(2, 3).T})
    assert read_tensors(tmp_path)["a"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no model\.safetensors in "):
        read_tensors(tmp_path)
    save_file({"a": np.zeros(100)}, tmp_path / WEIGHTS_FILE)
    content = (tmp_path / WEIGHTS_FILE).read_bytes()
    for damage in (content[:200], b"", b"no tensors at all"):
        (tmp_path / WEIGHTS_FILE).write_bytes(damage)
        with pytest.raises(UserError, match=r"model\.safetensors is damaged \(.*copy the file again") as caught:
            read_tensors(tmp_path)
        assert "\n" not in str(caught.value)


NAMES = {"encoder.blocks.0.bias": "encoder.layer.0.bias", "pooler.bias": "pooler.dense.bias"}
SHAPES = {"encoder.blocks.0.bias": (2,), "pooler.bias": (3,)}


def _tensors() -> dict[str, np.ndarray]:
    return {"encoder.layer.0.bias": np.zeros(2), "pooler.dense.bias": np.ones(3), "cls.bias": np.zeros(9)}


def test_select_takes_what_a_model_wants_under_our_names() -> None:
    selected = select(_tensors(), NAMES, SHAPES, "here")
    assert list(selected) == list(NAMES)
    assert selected["pooler.bias"].tolist() == [1, 1, 1]


def test_select_refuses_what_does_not_fit() -> None:
    tensors = _tensors()
    with pytest.raises(UserError, match=r"^here lacks 1 of 2 tensors, first 'pooler\.dense\.bias'"):
        select({name: array for name, array in tensors.items() if "pooler" not in name}, NAMES, SHAPES, "here")
    with pytest.raises(UserError, match=r"here: pooler\.dense\.bias has shape \(4,\) but the .* asks for \(3,\)"):
        select({**tensors, "pooler.dense.bias": np.zeros(4)}, NAMES, SHAPES, "here")
    with pytest.raises(UserError, match=r"hold 'encoder\.layer\.1\.bias', which the configuration has no"):
        select({**tensors, "encoder.layer.1.bias": np.zeros(2)}, NAMES, SHAPES, "here")


def test_a_head_leaves_the_blocks_aside() -> None:
    assert list(select(_tensors(), {"classifier.bias": "cls.bias"}, {"classifier.bias": (9,)}, "here")) == [
        "classifier.bias"
    ]


def test_a_check_wants_all_and_nothing_else() -> None:
    shapes = {"a": (2,), "b": (3,)}
    tensors = {"a": np.zeros(2), "b": np.zeros(3)}
    check_tensors(tensors, shapes, "here")
    check_tensors({**tensors, "c": np.zeros(1)}, shapes, "here", lambda name: name == "c")
    for wrong, message in (
        ({"a": np.zeros(2)}, "here lacks 1 of 2 tensors, first 'b'"),
        ({**tensors, "c": np.zeros(1)}, "here: the weights hold 'c', which the configuration has no"),
        ({**tensors, "b": np.zeros(4)}, "here: b has shape (4,) but the configuration asks for (3,)"),
    ):
        with pytest.raises(UserError) as caught:
            check_tensors(wrong, shapes, "here")
        assert str(caught.value).startswith(message)
