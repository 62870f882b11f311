"""Names of the tensors of ALBERT and DistilBERT."""

from __future__ import annotations

import pytest

from d2lbert.weights.relatives import albert_names, distilbert_names

SIZES = {"vocab_size": 20, "max_position_embeddings": 9}


def test_names_by_hand() -> None:
    names = albert_names(2)
    inside = "encoder.albert_layer_groups.1.albert_layers.0"
    assert names["encoder.blocks.1.attention.output.weight"] == f"{inside}.attention.dense.weight"
    assert names["encoder.blocks.1.feed_forward_norm.bias"] == f"{inside}.full_layer_layer_norm.bias"
    assert names["embeddings.project.weight"] == "encoder.embedding_hidden_mapping_in.weight"
    assert names["pooler.bias"] == "pooler.bias"
    names = distilbert_names(3)
    assert names["encoder.blocks.2.attention.key.bias"] == "transformer.layer.2.attention.k_lin.bias"
    assert not [name for name in names if "segment" in name or "pooler" in name]


def test_names_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    albert = transformers.AlbertConfig(
        hidden_size=8, num_attention_heads=2, intermediate_size=12, embedding_size=4, num_hidden_layers=4,
        num_hidden_groups=2, **SIZES,
    )  # fmt: skip
    assert sorted(albert_names(2).values()) == sorted(transformers.AlbertModel(albert).state_dict())
    distilbert = transformers.DistilBertConfig(dim=8, n_heads=2, hidden_dim=12, n_layers=3, **SIZES)
    assert sorted(distilbert_names(3).values()) == sorted(transformers.DistilBertModel(distilbert).state_dict())
