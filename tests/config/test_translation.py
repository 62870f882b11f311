"""Sizes of the Transformer and of the recurrent encoder-decoder: presets, files, and what does not fit together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.config import Seq2SeqConfig, TransformerConfig, transformer_preset
from d2lbert.config.translation import TRANSFORMER_PRESETS, TranslationConfig


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(hidden_size=24, num_attention_heads=3, hidden_act="gelu", norm_first=True),
        Seq2SeqConfig(hidden_size=24, cell="lstm", attention="dot", num_hidden_layers=2),
    ],
)
def test_a_file_comes_back(config: TranslationConfig, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert type(config).from_json(tmp_path / "config.json") == config


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(Seq2SeqConfig().to_dict()))
    with pytest.raises(UserError, match=r"config\.json: model_type is 'seq2seq', not 'transformer'; give a folder of"):
        TransformerConfig.from_json(path)
    path.write_text(json.dumps({**Seq2SeqConfig().to_dict(), "cell": "rnn"}))
    with pytest.raises(UserError, match=r"config\.json: configuration: unknown cell 'rnn'"):
        Seq2SeqConfig.from_json(path)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (TransformerConfig, {"hidden_size": 100}, "8 heads do not divide hidden_size 100"),
        (TransformerConfig, {"num_decoder_layers": 0}, "num_decoder_layers is 0"),
        (TransformerConfig, {"hidden_act": "tanh"}, "unknown hidden_act 'tanh'"),
        (
            TransformerConfig,
            {"target_vocab_size": 9},
            "share_embeddings wants one vocabulary",
        ),
        (TransformerConfig, {"eos_token_id": 37000}, "eos_token_id is 37000, outside the vocabulary of 37000"),
        (
            TransformerConfig,
            {"hidden_dropout_prob": 1.0},
            "hidden_dropout_prob is 1.0; it must be at least 0 and below 1",
        ),
        (Seq2SeqConfig, {"hidden_size": 7}, "hidden_size 7 cannot be halved for two directions"),
        (Seq2SeqConfig, {"target_vocab_size": 9, "share_embeddings": True}, "share_embeddings wants one vocabulary"),
        (Seq2SeqConfig, {"attention": "some"}, "unknown attention 'some'"),
        (Seq2SeqConfig, {"target_vocab_size": 2}, "eos_token_id is 2, outside the vocabulary of 2"),
    ],
)
def test_sizes_that_cannot_be(kind: type[TranslationConfig], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind(**changes)


def test_two_vocabularies_where_nothing_is_shared() -> None:
    config = TransformerConfig(target_vocab_size=9, share_embeddings=False)
    assert (config.source_vocab_size, config.target_vocab_size) == (37000, 9)
    assert Seq2SeqConfig(hidden_size=7, bidirectional=False).hidden_size == 7


def test_presets() -> None:
    sizes = {name: (config.num_encoder_layers, config.hidden_size) for name, config in TRANSFORMER_PRESETS.items()}
    assert sizes == {"tiny": (4, 128), "mini": (3, 256), "base": (6, 512), "big": (6, 1024)}
    small = transformer_preset("tiny", vocab_size=800)
    assert (small.source_vocab_size, small.target_vocab_size, small.hidden_size) == (800, 800, 128)
    with pytest.raises(UserError, match="unknown preset 'bse': did you mean base"):
        transformer_preset("bse")
