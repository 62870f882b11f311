"""GPT's configuration rejects what does not fit, in one line, and speaks Hugging Face's language."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.config import GPT_PRESETS, PRESETS, GptConfig, gpt_preset


def test_unknown_field_names_the_nearest() -> None:
    with pytest.raises(UserError, match="'n_head_': did you mean n_head"):
        GptConfig.from_dict({"n_head_": 3})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_embd", 0),
        ("n_embd", 76.8),
        ("vocab_size", True),
        ("n_head", 5),
        ("activation_function", "tanh"),
        ("resid_pdrop", 1.0),
        ("attn_pdrop", -0.1),
        ("eos_token_id", 50257),
        ("pad_token_id", -1),
    ],
)
def test_values_that_cannot_be(field: str, value: object) -> None:
    with pytest.raises(UserError, match=field):
        GptConfig(**{field: value})  # type: ignore[arg-type]


def test_json_round_trip_keeps_every_field(tmp_path: Path) -> None:
    config = gpt_preset("mini").replace(vocab_size=8192, bos_token_id=2, eos_token_id=3, pad_token_id=0, n_inner=100)
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert GptConfig.from_json(tmp_path / "config.json") == config


def test_fields_and_defaults_are_those_of_gpt2_in_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    reference = transformers.GPT2Config().to_dict()
    ours = dataclasses.asdict(GptConfig())
    assert len(ours) <= 20
    assert set(ours) <= set(reference)
    ours.pop("n_inner"), ours.pop("pad_token_id")  # null there: four times the width, and none
    assert {name: reference[name] for name in ours} == ours


def test_config_of_transformers_loads(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    transformers.GPT2Config().save_pretrained(tmp_path)
    assert GptConfig.from_json(tmp_path / "config.json") == GptConfig()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model_type", "bert", "model_type is 'bert', which d2lbert does not compute for GPT"),
        ("tie_word_embeddings", False, "tie_word_embeddings is False"),
        ("scale_attn_weights", False, "scale_attn_weights is False"),
        ("n_head", 7, "config.json: configuration: 7 heads do not divide n_embd 768"),
        ("activation_function", "silu", "unknown activation_function 'silu'"),
    ],
)
def test_what_is_not_computed_is_refused(tmp_path: Path, field: str, value: object, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**GptConfig().to_dict(), field: value}))
    with pytest.raises(UserError, match=message):
        GptConfig.from_json(path)


def test_presets_are_twins_of_berts() -> None:
    assert set(GPT_PRESETS) == set(PRESETS)
    for name, config in GPT_PRESETS.items():
        twin = PRESETS[name]
        sizes = (config.n_layer, config.n_embd, config.n_head, config.n_inner)
        assert sizes == (
            twin.num_hidden_layers,
            twin.hidden_size,
            twin.num_attention_heads,
            twin.intermediate_size,
        )
    with pytest.raises(UserError, match="unknown preset 'smal': did you mean small"):
        gpt_preset("smal")
