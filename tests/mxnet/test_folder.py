"""Model folders of the MXNet edition under our own names: there and back, and what does not fit."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import gluon

from d2lbert import UserError
from d2lbert.mxnet.folder import load_model, save_model


@dataclass(frozen=True)
class _Config:
    inputs: int = 3
    outputs: int = 2

    @classmethod
    def from_json(cls, path: Path) -> _Config:
        return cls(**json.loads(path.read_text()))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class _Model(gluon.Block):
    def __init__(self, config: _Config) -> None:
        super().__init__()
        self.config = config
        self.layer = gluon.nn.Dense(config.outputs, in_units=config.inputs)
        self.initialize(mxnet.init.Normal(1.0))


def test_a_model_comes_back(tmp_path: Path) -> None:
    model = _Model(_Config(4, 5))
    save_model(model, tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["config.json", "model.safetensors"]
    back = load_model(_Model, _Config, tmp_path / "model")
    assert back.config == model.config
    assert np.array_equal(back.layer.weight.data().asnumpy(), model.layer.weight.data().asnumpy())
    assert np.array_equal(back.layer.bias.data().asnumpy(), model.layer.bias.data().asnumpy())


def test_sizes_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    save_model(_Model(_Config(4, 5)), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"inputs": 4, "outputs": 6}))
    with pytest.raises(UserError, match=r"layer\.weight has shape \(5, 4\) but the configuration asks for \(6, 4\)"):
        load_model(_Model, _Config, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors in"):
        load_model(_Model, _Config, tmp_path)
