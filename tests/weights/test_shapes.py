"""The shapes that a configuration asks for are those of the model that is built from it, and cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from d2lbert.config import (
    AlbertConfig,
    BertConfig,
    DistilBertConfig,
    ElmoConfig,
    GptConfig,
    PrunedBertConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from d2lbert.torch.bert import BertModel
from d2lbert.torch.elmo import Elmo
from d2lbert.torch.folder import shapes_of
from d2lbert.torch.gpt import Gpt
from d2lbert.torch.relatives import AlbertModel, DistilBertModel, PrunedBertModel
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer
from d2lbert.weights import shapes

# All dimensions are of unequal size.
BLOCK = {"hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}
BERT = {**BLOCK, "vocab_size": 31, "num_hidden_layers": 2, "max_position_embeddings": 9}
TRANSFORMER = {**BLOCK, "num_encoder_layers": 2, "num_decoder_layers": 3, "max_position_embeddings": 9}
SEQ2SEQ = {"source_vocab_size": 31, "target_vocab_size": 29, "hidden_size": 12, "embedding_size": 7}
GPT = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 1, "vocab_size": 31}

MODELS: list[tuple[Callable[[Any], nn.Module], Callable[[Any], shapes.Shapes], Any]] = [
    (BertModel, shapes.bert_shapes, BertConfig(**BERT, type_vocab_size=3)),
    (AlbertModel, shapes.albert_shapes, AlbertConfig(**BERT, embedding_size=5, num_hidden_groups=2)),
    (DistilBertModel, shapes.distilbert_shapes, DistilBertConfig(**BERT)),
    (
        PrunedBertModel,
        shapes.pruned_bert_shapes,
        PrunedBertConfig(**BERT, type_vocab_size=3, heads_per_layer=(1, 2), neurons_per_layer=(20, 7)),
    ),
    (PrunedBertModel, shapes.pruned_bert_shapes, PrunedBertConfig(**BERT, type_vocab_size=3, embedding_rank=5)),
    (Gpt, shapes.gpt_shapes, GptConfig(**GPT, n_positions=9, n_embd=12, n_layer=2, n_head=3, n_inner=20)),
    (
        Elmo,
        shapes.elmo_shapes,
        ElmoConfig(filters=((1, 4), (3, 6)), projection_size=7, hidden_size=11, char_embedding_size=5, num_layers=3),
    ),
    *(
        (Transformer, shapes.transformer_shapes, TransformerConfig(**TRANSFORMER, **sizes, **more, norm_first=first))
        for first in (False, True)
        for sizes, more in (
            ({"source_vocab_size": 31, "target_vocab_size": 31}, {}),
            ({"source_vocab_size": 31, "target_vocab_size": 29}, {"share_embeddings": False}),
            ({"source_vocab_size": 31, "target_vocab_size": 31}, {"tie_word_embeddings": False}),
        )
    ),
    *(
        (
            Seq2Seq,
            shapes.seq2seq_shapes,
            Seq2SeqConfig(**SEQ2SEQ, cell=cell, attention=attention, bidirectional=both, num_hidden_layers=layers),
        )
        for cell, attention, both, layers in (
            ("gru", "additive", True, 1),
            ("lstm", "dot", False, 2),
            ("gru", "none", True, 3),
            ("lstm", "additive", True, 2),
        )
    ),
    *(
        (Seq2Seq, shapes.seq2seq_shapes, Seq2SeqConfig(**{**SEQ2SEQ, **tables}))
        for tables in (
            {"tie_word_embeddings": True},
            {"share_embeddings": True, "target_vocab_size": 31},
            {"share_embeddings": True, "tie_word_embeddings": True, "target_vocab_size": 31},
        )
    ),
]


@pytest.mark.parametrize(("build", "shapes_of_config", "config"), MODELS)
def test_shapes_are_those_of_the_model(
    build: Callable[[Any], nn.Module], shapes_of_config: Callable[[Any], shapes.Shapes], config: Any
) -> None:
    assert shapes_of_config(config) == shapes_of(dict(build(config).named_parameters()))


def test_the_largest_sizes_cost_no_memory() -> None:
    config = BertConfig(vocab_size=10_000_000, hidden_size=1_000_000, num_attention_heads=1, num_hidden_layers=1000)
    assert shapes.bert_shapes(config)["embeddings.word.weight"] == (10_000_000, 1_000_000)
