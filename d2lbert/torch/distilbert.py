"""DistilBERT's encoder (Sanh et al. 2019): every second block of BERT, no segments, no pooler.

It was trained to give the answers of BERT-base, its teacher, and started from the teacher's blocks.

Shape legend: B rows of a batch, L length of a row, D hidden size, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from d2lbert.compact_config import DistilBertConfig
from d2lbert.compact_weights import distilbert_names
from d2lbert.torch.bert import TextEncoder
from d2lbert.torch.transformer import initialize


class DistilBertEmbeddings(nn.Module):
    """The sum of word and position embeddings, then LayerNorm and dropout."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D). Segments are not looked at."""
        return self.dropout(self.norm(self.word(token_ids) + self.position(position_ids)))


class DistilBertModel(TextEncoder):
    """DistilBERT without a head: token ids in, contextual vectors out. ``pooled`` is the first token's last state.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = DistilBertConfig
    embeddings_class = DistilBertEmbeddings
    config: DistilBertConfig

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__(config)
        self.apply(lambda module: initialize(module, config.initializer_range))

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        return distilbert_names(self.config.num_hidden_layers)
