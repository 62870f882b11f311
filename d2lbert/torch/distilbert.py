"""DistilBERT's encoder (Sanh et al. 2019): every second block of BERT, no segments, no pooler.

It was trained to give the answers of BERT-base, its teacher, and started from the teacher's blocks.

Shape legend: B rows of a batch, L length of a row, D hidden size, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from d2lbert.compact_config import DistilBertConfig
from d2lbert.compact_weights import distilbert_names
from d2lbert.torch.bert import attention_mask, encoder_of, positions_of
from d2lbert.torch.model_folder import HuggingFaceEncoder
from d2lbert.torch.transformer import EncoderOutput, initialize


class DistilBertEmbeddings(nn.Module):
    """The sum of word and position embeddings, then LayerNorm and dropout."""

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, token_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        return self.dropout(self.norm(self.word(token_ids) + self.position(position_ids)))


class DistilBertModel(HuggingFaceEncoder):
    """DistilBERT without a head: token ids in, contextual vectors out.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = DistilBertConfig
    config: DistilBertConfig

    def __init__(self, config: DistilBertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = DistilBertEmbeddings(config)
        self.encoder = encoder_of(config)
        self.apply(lambda module: initialize(module, config.initializer_range))

    def forward(
        self,
        token_ids: Tensor,
        mask: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncoderOutput:
        """Encode a batch of rows; ``sequence`` of the output is (B, L, D).

        Args:
            token_ids: (B, L), integers below V.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default. ``sequence_ids`` replaces it.
            position_ids, sequence_ids: (B, L), for packed rows, as in :class:`~d2lbert.torch.bert.BertModel`.

        Raises:
            UserError: a row is longer than the position embeddings.
        """
        if position_ids is None:
            position_ids = positions_of(token_ids, self.config.max_position_embeddings)
        x = self.embeddings(token_ids, position_ids)  # (B, L, D)
        return self.encoder(x, attention_mask(mask, sequence_ids), output_hidden_states, output_attentions)

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        return distilbert_names(self.config.num_hidden_layers)
