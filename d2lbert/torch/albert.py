"""ALBERT's encoder (Lan et al. 2020): BERT with narrow embeddings, and one block that all layers share.

Two changes, both to save parameters. The word embeddings have E numbers a piece, far fewer than D, and one matrix
(E, D) widens them: V E + E D parameters instead of V D (section 3.1, factorised embedding parameterisation). And each
layer runs the same block, so that 12 layers have the parameters of one. It saves memory, not time: every layer is still
computed.

Shape legend: B rows of a batch, L length of a row, D hidden size, E embedding size, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from d2lbert.compact_config import AlbertConfig
from d2lbert.compact_weights import albert_names
from d2lbert.config import BertConfig
from d2lbert.torch.bert import BertEmbeddings, BertModel

_EMBEDDING_FIELDS = (
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "hidden_dropout_prob",
)


class AlbertEmbeddings(BertEmbeddings):
    """The embeddings of a BERT of width E, then a linear layer to D."""

    def __init__(self, config: AlbertConfig) -> None:
        sizes = {name: getattr(config, name) for name in _EMBEDDING_FIELDS}
        super().__init__(BertConfig(hidden_size=config.embedding_size, num_attention_heads=1, **sizes))
        self.project = nn.Linear(config.embedding_size, config.hidden_size)

    def forward(self, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        return self.project(super().forward(token_ids, segment_ids, position_ids))  # (B, L, E) -> (B, L, D)


class AlbertModel(BertModel):
    """ALBERT without a head. Input, output and packed rows are those of :class:`~d2lbert.torch.bert.BertModel`.

    Differs from ``transformers`` in training alone, where the rate of dropout is not 0 as it is in version 2: there is
    dropout on the feed-forward network's output, too, as in BERT.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = AlbertConfig
    embeddings_class = AlbertEmbeddings
    config: AlbertConfig

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        return albert_names(self.config.num_hidden_groups)
