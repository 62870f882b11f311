"""ALBERT, DistilBERT and a pruned BERT: blocks that are shared, segments that are ignored, blocks of unequal sizes."""

from __future__ import annotations

import pytest
import torch

from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.torch.bert import BertModel
from d2lbert.torch.relatives import AlbertEmbeddings, AlbertModel, DistilBertModel, PrunedBertModel, encoder_class

SIZES = {"vocab_size": 30, "hidden_size": 12, "num_attention_heads": 3, "intermediate_size": 20}
ALBERT = AlbertConfig(num_hidden_layers=6, num_hidden_groups=2, embedding_size=5, **SIZES)
DISTILBERT = DistilBertConfig(num_hidden_layers=2, **SIZES)


def _count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_parameters_of_an_albert_by_formula() -> None:
    """Two blocks for six layers; embeddings of E, then a matrix E x D: V E + E D instead of V D."""
    embeddings = (30 + 512 + 2 + 2) * 5 + (5 * 12 + 12)
    block = 4 * (12 * 12 + 12) + 2 * 12 * 20 + 12 + 20 + 2 * 2 * 12
    pooler = 12 * 12 + 12
    assert _count(AlbertModel(ALBERT)) == embeddings + 2 * block + pooler
    assert _count(AlbertModel(ALBERT.replace(num_hidden_layers=12))) == embeddings + 2 * block + pooler


def test_narrow_embeddings_are_widened() -> None:
    embeddings = AlbertEmbeddings(ALBERT)
    ids = torch.tensor([[3, 4]])
    assert embeddings(ids, torch.zeros_like(ids), torch.arange(2)[None]).shape == (1, 2, 12)
    assert embeddings.word.weight.shape == (30, 5)


def test_a_distilbert_has_no_segments_and_no_pooler() -> None:
    torch.manual_seed(0)
    model = DistilBertModel(DISTILBERT.replace(initializer_range=0.5)).eval()
    ids = torch.tensor([[3, 4, 5]])
    with torch.no_grad():
        output = model(ids)
    assert not [name for name in model.state_dict() if "segment" in name or "pooler" in name]
    assert torch.equal(output.pooled, output.sequence[:, 0])


def test_blocks_of_a_pruned_bert_have_sizes_of_their_own() -> None:
    config = PrunedBertConfig(num_hidden_layers=2, heads_per_layer=(1, 3), neurons_per_layer=(20, 6), **SIZES)
    model = PrunedBertModel(config).eval()
    shapes = [(b.attention.query.weight.shape, b.feed_forward.expand.weight.shape) for b in model.encoder.layers()]
    assert shapes == [((4, 12), (20, 12)), ((12, 12), (6, 12))]
    assert [b.attention.num_heads for b in model.encoder.layers()] == [1, 3]
    whole = BertModel(BertConfig(num_hidden_layers=2, **SIZES))
    head, neuron = 4 * 12 * 4 + 3 * 4, 2 * 12 + 1
    assert _count(whole) - _count(model) == 2 * head + 14 * neuron


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert", BertModel),
        ("albert", AlbertModel),
        ("distilbert", DistilBertModel),
        ("pruned_bert", PrunedBertModel),
        ("gpt2", BertModel),
    ],
)
def test_the_class_of_a_model_type(name: str, expected: type) -> None:
    assert encoder_class(name) is expected
