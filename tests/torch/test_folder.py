"""Model folders under our own names or those of a file: there and back, and what does not fit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from torch import nn

from d2lbert import UserError
from d2lbert.torch.folder import (
    HuggingFaceFolder,
    load_model,
    load_named,
    named_arrays,
    save_model,
    shapes_of,
    skip_init,
    to_arrays,
)
from d2lbert.weights.folder import check_tensors, write_tensors

NAMES = {"layer.weight": "theirs.kernel", "layer.bias": "theirs.bias"}


@dataclass(frozen=True)
class _Config:
    inputs: int = 3
    outputs: int = 2

    @classmethod
    def from_json(cls, path: Path) -> _Config:
        values = json.loads(path.read_text())
        return cls(values["inputs"], values["outputs"])

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _shapes(config: _Config) -> dict[str, tuple[int, ...]]:
    return {"layer.weight": (config.outputs, config.inputs), "layer.bias": (config.outputs,)}


class _Model(nn.Module):
    def __init__(self, config: _Config) -> None:
        super().__init__()
        self.config = config
        self.layer = nn.Linear(config.inputs, config.outputs)
        self.dropout = nn.Dropout(0.5)
        self.tied = self.layer  # the same parameters under a second name


class _Theirs(HuggingFaceFolder):
    """A model whose folder has the names of another library."""

    config_class = _Config

    def __init__(self, config: _Config) -> None:
        super().__init__()
        self.config = config
        self.layer = nn.Linear(config.inputs, config.outputs)

    def complete(self, tensors: dict[str, np.ndarray], origin: Path) -> dict[str, np.ndarray]:
        return {"theirs.bias": np.full(self.config.outputs, 7, dtype=np.float32), **tensors}

    @classmethod
    def check_file(cls, header: Mapping[str, Any], config: _Config, origin: Path) -> None:
        check_tensors(header, {"theirs.kernel": (config.outputs, config.inputs)}, origin, lambda name: True)

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        load_named(self, NAMES, tensors, origin)

    def tensors(self) -> dict[str, np.ndarray]:
        return named_arrays(self, NAMES)

    def folder_fields(self) -> dict[str, Any]:
        return {"architectures": ["Theirs"]}


def test_a_model_comes_back_ready_for_use(tmp_path: Path) -> None:
    model = _Model(_Config(4, 5))
    save_model(model, tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    assert sorted(load_file(tmp_path / "model" / "model.safetensors")) == ["layer.bias", "layer.weight"]  # once
    back = load_model(_Model, _Config, tmp_path / "model", _shapes)
    assert back.config == model.config
    assert not back.training
    assert torch.equal(back.layer.weight, model.layer.weight)
    assert torch.equal(back.layer.bias, model.layer.bias)
    assert back.layer.weight.requires_grad


def test_a_folder_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    save_model(_Model(_Config(4, 5)), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"inputs": 4, "outputs": 6}))
    with pytest.raises(UserError, match=r"layer\.weight has shape \(5, 4\) but the configuration asks for \(6, 4\)"):
        load_model(_Model, _Config, tmp_path, _shapes)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors in"):
        load_model(_Model, _Config, tmp_path, _shapes)


def test_nothing_is_built_before_the_file_is_seen_to_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(_Model(_Config(4, 5)), tmp_path / "ours")
    _Theirs(_Config(4, 5)).save_pretrained(tmp_path / "theirs")
    for folder in ("ours", "theirs"):
        (tmp_path / folder / "config.json").write_text(json.dumps({"inputs": 4, "outputs": 10**12}))
    monkeypatch.setattr(nn, "Linear", None)
    with pytest.raises(UserError, match=r"layer\.weight has shape \(5, 4\)"):
        load_model(_Model, _Config, tmp_path / "ours", _shapes)
    with pytest.raises(UserError, match=r"theirs\.kernel has shape \(5, 4\)"):
        _Theirs.from_pretrained(tmp_path / "theirs")


def test_arrays_are_in_float32_and_shapes_plain_tuples() -> None:
    tensors = {"a": torch.tensor([[1.5], [2.0]], dtype=torch.bfloat16, requires_grad=True), "b": torch.tensor(3.0)}
    arrays = to_arrays(tensors)
    assert {name: array.dtype for name, array in arrays.items()} == {"a": np.float32, "b": np.float32}
    assert arrays["a"].tolist() == [[1.5], [2.0]]
    assert shapes_of(tensors) == {"a": (2, 1), "b": ()}
    assert type(shapes_of(tensors)["a"]) is tuple


def test_names_of_a_file_go_both_ways() -> None:
    one, other = _Model(_Config()), _Model(_Config())
    arrays = named_arrays(one, NAMES)
    assert sorted(arrays) == ["theirs.bias", "theirs.kernel"]
    load_named(other, NAMES, {**arrays, "a head": np.zeros(9, dtype=np.float32)}, "here")
    assert torch.equal(one.layer.weight, other.layer.weight)
    assert torch.equal(one.layer.bias, other.layer.bias)


def test_only_what_is_named_is_loaded() -> None:
    model = _Model(_Config())
    weight = model.layer.weight.detach().clone()
    load_named(model, {"layer.bias": "b"}, {"b": np.array([1, 2], dtype=np.float32)}, "here")
    assert model.layer.bias.tolist() == [1, 2]
    assert torch.equal(model.layer.weight, weight)
    assert list(named_arrays(model, {"layer.bias": "b"})) == ["b"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"theirs.bias": None}, r"^here lacks 1 of 2 tensors, first 'theirs\.bias'"),
        ({"theirs.bias": np.zeros(3)}, r"^here: theirs\.bias has shape \(3,\) but the configuration asks for \(2,\)"),
    ],
)
def test_named_tensors_that_do_not_fit_change_nothing(change: dict[str, np.ndarray | None], message: str) -> None:
    model = _Model(_Config())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    tensors = {"theirs.kernel": np.ones((2, 3)), "theirs.bias": np.ones(2), **change}
    with pytest.raises(UserError, match=message):
        load_named(model, NAMES, {name: array for name, array in tensors.items() if array is not None}, "here")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_folder_in_the_names_of_another_library(tmp_path: Path) -> None:
    model = _Theirs(_Config(4, 5))
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "inputs": 4,
        "outputs": 5,
        "architectures": ["Theirs"],
    }
    assert sorted(load_file(tmp_path / "model.safetensors")) == ["theirs.bias", "theirs.kernel"]
    back = _Theirs.from_pretrained(tmp_path)
    assert not back.training
    assert torch.equal(back.layer.weight, model.layer.weight)
    assert torch.equal(back.layer.bias, model.layer.bias)


def test_a_file_is_completed_before_it_is_loaded(tmp_path: Path) -> None:
    model = _Theirs(_Config(4, 5))
    model.save_pretrained(tmp_path)
    write_tensors(tmp_path, {"theirs.kernel": model.tensors()["theirs.kernel"]})
    assert _Theirs.from_pretrained(tmp_path).layer.bias.tolist() == [7] * 5


def test_a_model_must_say_its_names() -> None:
    class Silent(HuggingFaceFolder):
        """It has no tables of names."""

    assert Silent.__abstractmethods__ == {"check_file", "load_tensors", "tensors"}
    with pytest.raises(TypeError, match="abstract"):
        Silent()  # type: ignore[abstract]


def test_nothing_is_drawn_for_a_network_that_is_loaded() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    model = skip_init(lambda: _Model(_Config(4, 5)))
    assert torch.equal(torch.rand(3), expected)  # the generator is where it was
    assert model.layer.weight.shape == (5, 4)
    assert model.tied is model.layer
    assert not torch.equal(_Model(_Config(4, 5)).layer.weight, _Model(_Config(4, 5)).layer.weight)  # and after it
