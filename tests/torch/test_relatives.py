"""ALBERT and DistilBERT: blocks that are shared, segments that are ignored, the class of a model type."""

from __future__ import annotations

import pytest
import torch

from d2lbert.config import AlbertConfig, DistilBertConfig
from d2lbert.torch.bert import BertModel
from d2lbert.torch.relatives import AlbertEmbeddings, AlbertModel, DistilBertModel, encoder_class

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


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bert", BertModel), ("albert", AlbertModel), ("distilbert", DistilBertModel), ("gpt2", BertModel)],
)
def test_the_class_of_a_model_type(name: str, expected: type) -> None:
    assert encoder_class(name) is expected
