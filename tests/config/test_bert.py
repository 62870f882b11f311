"""Configurations reject what does not fit, in one line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.config import PRESETS, BertConfig, preset
from d2lbert.storage.files import read_json


def test_unknown_field_names_the_nearest() -> None:
    with pytest.raises(UserError, match="'hidden_sizes': did you mean hidden_size"):
        BertConfig.from_dict({"hidden_sizes": 3})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 0),
        ("hidden_size", 7.5),
        ("vocab_size", True),
        ("num_attention_heads", 5),
        ("hidden_act", "tanh"),
        ("hidden_dropout_prob", 1.5),
        ("attention_probs_dropout_prob", -0.1),
        ("initializer_range", 0.0),
        ("num_hidden_layers", 0),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 10**9),
        ("max_position_embeddings", 10**11),
        ("vocab_size", 2**63),
        ("type_vocab_size", -1),
        ("layer_norm_eps", 0.0),
        ("layer_norm_eps", -1.0),
        ("layer_norm_eps", float("nan")),
        ("layer_norm_eps", float("inf")),
    ],
)
def test_values_that_cannot_be(field: str, value: object) -> None:
    with pytest.raises(UserError):
        BertConfig(**{field: value})


def test_json_round_trip_keeps_every_field(tmp_path: Path) -> None:
    config = preset("mini").replace(vocab_size=8192, layer_norm_eps=1e-5)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert BertConfig.from_json(tmp_path / "config.json") == config


def test_configurations_are_frozen_small_and_named_as_in_hugging_face() -> None:
    transformers = pytest.importorskip("transformers")
    fields = {field.name for field in dataclasses.fields(BertConfig)}
    assert len(fields) <= 20
    assert fields <= set(transformers.BertConfig().to_dict())
    with pytest.raises(dataclasses.FrozenInstanceError):
        preset("tiny").hidden_size = 3  # type: ignore[misc]


def test_defaults_are_those_of_bert_base_in_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.BertConfig().to_dict()
    for name, value in dataclasses.asdict(preset("base")).items():
        assert reference[name] == value, name


def test_presets() -> None:
    sizes = {name: (config.num_hidden_layers, config.hidden_size) for name, config in PRESETS.items()}
    assert sizes == {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "base": (12, 768), "large": (24, 1024)}
    assert all(config.head_size == 64 for config in PRESETS.values())
    with pytest.raises(UserError, match="unknown preset 'bsae': did you mean base"):
        preset("bsae")


def test_json_that_is_not_an_object(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]")
    with pytest.raises(UserError, match="holds a list, not a JSON object"):
        read_json(path)
    with pytest.raises(UserError, match="No such file"):
        read_json(tmp_path / "nothing.json")
