"""Small fine-tuned models of every head and every encoder, with random parameters, and what engines are compared by."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from random_parameters import randomize
from torch import nn

from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.config.adapters import AdapterConfig
from d2lbert.deploy.graphs import Graph, logits_beside, random_inputs
from d2lbert.torch import heads
from d2lbert.torch.adapters import adapted_layers, add_adapters, save_adapters
from d2lbert.torch.bert import BertModel
from d2lbert.torch.relatives import AlbertModel, DistilBertModel, PrunedBertModel

SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
V, LONGEST = 40, 24  # vocabulary and positions of the models below
ENCODERS: dict[str, Callable[[], BertModel]] = {
    "bert": lambda: BertModel(BertConfig(vocab_size=V, max_position_embeddings=LONGEST, **SIZES)),
    "albert": lambda: AlbertModel(
        AlbertConfig(vocab_size=V, embedding_size=4, max_position_embeddings=LONGEST, **SIZES)
    ),
    "distilbert": lambda: DistilBertModel(DistilBertConfig(vocab_size=V, max_position_embeddings=LONGEST, **SIZES)),
    "pruned": lambda: PrunedBertModel(
        PrunedBertConfig(vocab_size=V, max_position_embeddings=LONGEST, heads_per_layer=(1, 2), **SIZES)
    ),
    "factorised": lambda: PrunedBertModel(
        PrunedBertConfig(vocab_size=V, max_position_embeddings=LONGEST, embedding_rank=5, **SIZES)
    ),
}
HEADS: dict[str, Callable[[Any], heads.BertWithHead]] = {
    "texts": lambda encoder: heads.BertForSequenceClassification(encoder, ("a", "b", "c")),
    "tokens": lambda encoder: heads.BertForTokenClassification(encoder, ("O", "B-x")),
    "answers": heads.BertForQuestionAnswering,
    "choices": heads.BertForMultipleChoice,
}


def make_model(encoder: str, head: str) -> heads.BertWithHead:
    """Return a model whose every number matters."""
    model = HEADS[head](ENCODERS[encoder]())
    randomize(model, seed=3, standard_deviation=0.3)
    return model.eval()


def make_adapters(base: Path, folder: Path, head: type, *labels: str, seed: int = 0, rank: int = 2) -> None:
    """Write adapters with random numbers, and a random head."""
    model = head(BertModel.from_pretrained(base), *([list(labels)] if labels else []))
    add_adapters(model, AdapterConfig(rank=rank, alpha=2.0 * rank))
    torch.manual_seed(seed)
    for layer in adapted_layers(model).values():
        nn.init.normal_(layer.up, std=0.3)
    save_adapters(model, folder, str(base))


def compared_shapes(graph: Graph, run: Callable[..., np.ndarray], count: int) -> set[tuple[int, ...]]:
    """Compare what an engine computes with the graph, over so many random batches; return the shapes of these."""
    shapes = set()
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        rows, length = (int(torch.randint(1, most, (), generator=generator)) for most in (7, LONGEST + 1))
        shapes.add((rows, length))
        right, found = logits_beside(graph, random_inputs(graph, rows, length, seed), run)
        np.testing.assert_allclose(found, right, atol=2e-5, rtol=2e-5)
    return shapes
