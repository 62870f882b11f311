"""GluonNLP's parameter names of BERT, and Hugging Face's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from params_support import gluonnlp_shapes, random_tensors, write_sparsely

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.weights.bert import PRETRAINING_HEADS, bert_file_shapes
from d2lbert.weights.folder import check_header
from d2lbert.weights.gluonnlp import by_hugging_face_names, hugging_face_name, without_second_copy
from d2lbert.weights.mxnet_params import read_params_header

BASE = BertConfig()
LARGE = BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("encoder.position_weight", "embeddings.position_embeddings.weight"),
        ("encoder.layer_norm.gamma", "embeddings.LayerNorm.weight"),
        ("word_embed.0.weight", "embeddings.word_embeddings.weight"),
        ("encoder.transformer_cells.11.proj.bias", "encoder.layer.11.attention.output.dense.bias"),
        ("encoder.transformer_cells.0.layer_norm.beta", "encoder.layer.0.attention.output.LayerNorm.bias"),
        ("encoder.transformer_cells.0.ffn.layer_norm.beta", "encoder.layer.0.output.LayerNorm.bias"),
        ("encoder.transformer_cells.3.attention_cell.proj_key.weight", "encoder.layer.3.attention.self.key.weight"),
        ("classifier.bias", "cls.seq_relationship.bias"),
        ("decoder.2.gamma", "cls.predictions.transform.LayerNorm.weight"),
        ("decoder.3.bias", "cls.predictions.bias"),
    ],
)
def test_names(name: str, expected: str) -> None:
    assert hugging_face_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "",
        "pooler",
        "pooler.gamma",
        "encoder.layer_norm.weight",
        "encoder.position_weight.weight",
        "encoder.transformer_cells.00.proj.bias",
        "encoder.transformer_cells.x.proj.bias",
        "encoder.transformer_cells.0.pooler.bias",
        "encoder.transformer_cells.\u0663.proj.bias",
        "bertmodel0_word_embed_embedding0_weight",
        "bert.pooler.weight",
    ],
)
def test_what_is_no_parameter_of_gluonnlps_bert(name: str) -> None:
    assert hugging_face_name(name) is None
    with pytest.raises(UserError, match=r"^x\.params: '.*' is no parameter of GluonNLP's BERTModel: give a file"):
        by_hugging_face_names({"pooler.bias": 0, name: 1}, "x.params")


@pytest.mark.parametrize("config", [BASE, LARGE, replace(BASE, num_hidden_layers=2)], ids=("base", "large", "small"))
def test_every_parameter_of_either_size_has_its_place(config: BertConfig) -> None:
    renamed = by_hugging_face_names(gluonnlp_shapes(config), "x.params")
    encoder = bert_file_shapes(config)
    assert {name: renamed[name] for name in encoder} == encoder
    assert set(renamed) - set(encoder) == {*PRETRAINING_HEADS.values(), "cls.predictions.decoder.weight"}
    bare = by_hugging_face_names(gluonnlp_shapes(config, decoder=False, classifier=False), "x.params")
    assert bare == encoder


@pytest.mark.parametrize("config", [BASE, LARGE], ids=("base", "large"))
def test_a_file_of_full_size(config: BertConfig, tmp_path: Path) -> None:
    path = tmp_path / "x.params"
    write_sparsely(path, gluonnlp_shapes(config))
    header = by_hugging_face_names(read_params_header(path), path)
    check_header(header, bert_file_shapes(config), path)
    assert path.stat().st_size > (1.4e9 if config is LARGE else 5e8)
    other = replace(config, num_hidden_layers=config.num_hidden_layers - 1)
    with pytest.raises(UserError, match=f"the weights hold 'encoder.layer.{other.num_hidden_layers}"):
        check_header(header, bert_file_shapes(other), path)


def test_the_words_of_encoder_and_decoder_are_one_table() -> None:
    small = replace(BASE, vocab_size=7, hidden_size=4, num_hidden_layers=1, num_attention_heads=1)
    tensors: dict[str, Any] = random_tensors(gluonnlp_shapes(small))
    both = by_hugging_face_names(tensors, "x.params")
    kept = without_second_copy(both, "x.params")
    assert set(both) - set(kept) == {"cls.predictions.decoder.weight"}
    once = by_hugging_face_names({name: t for name, t in tensors.items() if name != "word_embed.0.weight"}, "x.params")
    assert np.array_equal(once["embeddings.word_embeddings.weight"], tensors["word_embed.0.weight"])
    tensors["decoder.3.weight"] = tensors["decoder.3.weight"] + 1
    with pytest.raises(UserError, match=r"^x\.params: its decoder has other vectors of words"):
        without_second_copy(by_hugging_face_names(tensors, "x.params"), "x.params")
