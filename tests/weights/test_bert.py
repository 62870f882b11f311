"""Names of BERT's tensors, and files without a pooler."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from d2lbert.weights.bert import bert_names, with_pooler


def test_names_by_hand() -> None:
    names = bert_names(2)
    assert len(names) == 5 + 2 * 16 + 2
    assert names["embeddings.segment.weight"] == "embeddings.token_type_embeddings.weight"
    assert names["encoder.blocks.1.attention.query.weight"] == "encoder.layer.1.attention.self.query.weight"
    assert names["encoder.blocks.0.attention_norm.bias"] == "encoder.layer.0.attention.output.LayerNorm.bias"
    assert names["encoder.blocks.1.feed_forward.expand.bias"] == "encoder.layer.1.intermediate.dense.bias"
    assert names["pooler.weight"] == "pooler.dense.weight"


def test_names_are_those_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "vocab_size": 20}
    reference = transformers.BertModel(transformers.BertConfig(num_hidden_layers=3, **sizes))
    assert sorted(bert_names(3).values()) == sorted(reference.state_dict())


def test_a_missing_pooler_is_new_and_said() -> None:
    tensors = {"embeddings.LayerNorm.bias": np.zeros(2)}
    new = {"pooler.dense.bias": np.ones(2), "embeddings.LayerNorm.bias": np.ones(2)}
    with pytest.warns(UserWarning, match=r"^here has no pooler: \.pooled starts from random weights"):
        completed = with_pooler(tensors, lambda: new, "here")
    assert completed["pooler.dense.bias"] is new["pooler.dense.bias"]
    assert completed["embeddings.LayerNorm.bias"] is tensors["embeddings.LayerNorm.bias"]


def test_a_pooler_that_is_there_stays() -> None:
    tensors = {"pooler.dense.bias": np.zeros(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert with_pooler(tensors, dict, "here") == tensors
