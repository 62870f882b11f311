"""Small fine-tuned models of every head and every encoder, with random parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from random_parameters import randomize

from d2lbert.config import AlbertConfig, BertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.torch import heads
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
