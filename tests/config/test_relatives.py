"""Sizes of ALBERT, DistilBERT and a pruned BERT: their names in ``config.json``, and what only they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig, PrunedBertConfig


@pytest.mark.parametrize(
    "config",
    [
        AlbertConfig(vocab_size=90, embedding_size=12, num_hidden_layers=6, num_hidden_groups=3),
        DistilBertConfig(hidden_size=24, num_attention_heads=3, intermediate_size=50, hidden_act="relu"),
        PrunedBertConfig(num_hidden_layers=2, heads_per_layer=(3, 12), neurons_per_layer=(1, 3072)),
        PrunedBertConfig(embedding_rank=128),
        PrunedBertConfig(),
    ],
)
def test_a_file_comes_back(config: BertConfig, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    assert type(config).from_json(tmp_path / "config.json") == config


def test_blocks_of_a_pruned_bert() -> None:
    """A head stays as wide as before; what is not said is whole."""
    config = PrunedBertConfig(num_hidden_layers=2, heads_per_layer=(3, 12))
    sizes = [(one.num_heads, one.head_size, one.attention_size, one.intermediate_size) for one in config.blocks]
    assert sizes == [(3, 64, 192, 3072), (12, 64, 768, 3072)]
    assert [block.attention_size for block in BertConfig().blocks] == [768] * 12


def test_distilbert_has_other_names_in_a_file() -> None:
    written = DistilBertConfig(hidden_size=24, num_attention_heads=3, intermediate_size=50).to_dict()
    names = ("model_type", "architectures", "dim", "n_layers", "n_heads", "hidden_dim", "activation", "dropout")
    assert [written[name] for name in names] == ["distilbert", ["DistilBertModel"], 24, 6, 3, 50, "gelu", 0.1]
    assert "hidden_size" not in written


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DistilBertConfig(), "model_type is 'distilbert', which d2lbert does not compute for AlbertModel"),
        (BertConfig(), "model_type is 'bert', which d2lbert does not compute for AlbertModel"),
    ],
)
def test_a_file_of_another_kind_is_refused(config: BertConfig, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    with pytest.raises(UserError, match=message):
        AlbertConfig.from_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (AlbertConfig, {"num_hidden_groups": 5}, "5 groups do not divide num_hidden_layers 12"),
        (AlbertConfig, {"num_hidden_groups": 0}, "num_hidden_groups is 0"),
        (PrunedBertConfig, {"heads_per_layer": (3, 4)}, r"heads_per_layer is \[3, 4\]; give 12 whole numbers"),
        (PrunedBertConfig, {"heads_per_layer": (0,) * 12}, r"heads_per_layer is \[0, 0.*from 1 to 12"),
        (PrunedBertConfig, {"neurons_per_layer": (3073,) * 12}, "give 12 whole numbers from 1 to 3072"),
        (PrunedBertConfig, {"neurons_per_layer": (9.5,) * 12}, "give 12 whole numbers from 1 to 3072"),
        (PrunedBertConfig, {"neurons_per_layer": 7}, "neurons_per_layer is 7; it must be of type tuple"),
        (PrunedBertConfig, {"embedding_rank": 769}, "a matrix of 768 columns has no higher rank than 768"),
        (PrunedBertConfig, {"embedding_rank": -1}, "embedding_rank is -1"),
        (DistilBertConfig, {"type_vocab_size": 1}, "type_vocab_size is 1; it is 0 in every DistilBERT"),
    ],
)
def test_sizes_that_cannot_be(kind: type[BertConfig], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        kind(**changes)
