"""Model folders of the MXNet edition under our own names: there and back, and what does not fit."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import gluon
from safetensors.numpy import load_file, save_file

from d2lbert import UserError
from d2lbert.config import BertConfig, ElmoConfig, GptConfig, Seq2SeqConfig, TransformerConfig
from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.elmo import Elmo
from d2lbert.mxnet.folder import load_model, save_model
from d2lbert.mxnet.gpt import Gpt
from d2lbert.mxnet.seq2seq import Seq2Seq
from d2lbert.mxnet.transformer import Transformer


@dataclass(frozen=True)
class _Config:
    inputs: int = 3
    outputs: int = 2

    @classmethod
    def from_json(cls, path: Path) -> _Config:
        return cls(**json.loads(path.read_text()))

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _shapes(config: _Config) -> dict[str, tuple[int, ...]]:
    return {"layer.weight": (config.outputs, config.inputs), "layer.bias": (config.outputs,)}


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
    back = load_model(_Model, _Config, tmp_path / "model", _shapes)
    assert back.config == model.config
    assert np.array_equal(back.layer.weight.data().asnumpy(), model.layer.weight.data().asnumpy())
    assert np.array_equal(back.layer.bias.data().asnumpy(), model.layer.bias.data().asnumpy())


def test_sizes_that_do_not_fit_are_one_line(tmp_path: Path) -> None:
    save_model(_Model(_Config(4, 5)), tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"inputs": 4, "outputs": 6}))
    with pytest.raises(UserError, match=r"layer\.weight has shape \(5, 4\) but the configuration asks for \(6, 4\)"):
        load_model(_Model, _Config, tmp_path, _shapes)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"no model\.safetensors in"):
        load_model(_Model, _Config, tmp_path, _shapes)


SIZES = {"vocab_size": 31, "hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}
MODELS: list[tuple[Any, Any, str, str]] = [
    (BertModel, BertConfig(**SIZES, num_hidden_layers=2), "config.json", "vocab_size"),
    (Gpt, GptConfig(31, 9, 12, 2, 3, 20, bos_token_id=1, eos_token_id=1, pad_token_id=1), "config.json", "n_positions"),
    (Seq2Seq, Seq2SeqConfig(31, 31, 12, embedding_size=7), "config.json", "target_vocab_size"),
    (Transformer, TransformerConfig(31, 31, 12, num_attention_heads=3), "config.json", "num_decoder_layers"),
    (Elmo, ElmoConfig(filters=((1, 4),), projection_size=7, hidden_size=11), "options.json", "n_characters"),
]


def save(model: Any, folder: Path) -> None:
    """Write a model; an ELMo begins without numbers."""
    if isinstance(model, Elmo):
        model.initialize()
    model.save_pretrained(folder)


@pytest.mark.parametrize(("model", "config", "file", "field"), MODELS)
def test_no_model_is_built_before_its_file_is_seen_to_fit(
    model: Any, config: Any, file: str, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(model(config), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    content = (tmp_path / file).read_text()
    monkeypatch.setattr(model, "__init__", lambda self, config: pytest.fail("it was built"))
    (tmp_path / file).write_text(re.sub(rf'"{field}": \d+', f'"{field}": 999', content))
    with pytest.raises(UserError, match=r" has shape .* but the configuration asks for | lacks \d+ of \d+ tensors"):
        model.from_pretrained(tmp_path)
    (tmp_path / file).write_text(content)
    first = min(tensors)
    save_file({**tensors, first: tensors[first].astype(np.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="holds numbers of type I8: give weights in float32"):
        model.from_pretrained(tmp_path)


@pytest.mark.parametrize(("model", "config", "file", "field"), MODELS)
def test_numbers_that_are_not_finite_are_refused(
    model: Any, config: Any, file: str, field: str, tmp_path: Path
) -> None:
    save(model(config), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    first = min(tensors)
    save_file({**tensors, first: np.full_like(tensors[first], np.nan)}, tmp_path / "model.safetensors")
    with pytest.raises(UserError, match="holds NaN or infinity"):
        model.from_pretrained(tmp_path)
