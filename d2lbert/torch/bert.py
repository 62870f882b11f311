"""BERT's encoder (Devlin et al. 2019): three embeddings, a post-LN Transformer encoder, a pooler.

Shape legend: B rows of a batch, L length of a row, D hidden size, H heads, V vocabulary, N texts. A row holds one text
(then N = B), or, packed, several texts one after the other (then N > B).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.torch.attention import same_sequence
from d2lbert.torch.encoder import TransformerEncoder, initialize
from d2lbert.torch.folder import HuggingFaceEncoder
from d2lbert.weights.bert import bert_names


@dataclass
class BertOutput:
    """What :class:`BertModel` and its relatives return.

    Fields:
        sequence: (B, L, D), the last hidden state of every token.
        pooled: (N, D), tanh(W h + b) of the first token of every text; h itself where there is no pooler.
        hidden_states: on request, the embeddings and the output of each block, each (B, L, D).
        attentions: on request, the weights of each block, each (B, H, L, L).
    """

    sequence: Tensor
    pooled: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class BertEmbeddings(nn.Module):
    """The sum of word, position and segment embeddings, then LayerNorm and dropout (Devlin et al. 2019, figure 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        total = self.word(token_ids) + self.position(position_ids) + self.segment(segment_ids)
        return self.dropout(self.norm(total))


class TextEncoder(HuggingFaceEncoder):
    """Embeddings and blocks: what BERT, ALBERT and DistilBERT share. Rows may be packed.

    A packed row holds several texts. It needs ``position_ids`` that start again at 0 with every text,
    ``sequence_ids`` that confine attention to each text, and ``starts``; :func:`d2lbert.data.batching.pack` makes all
    three.
    """

    config_class = BertConfig
    embeddings_class: ClassVar[type[nn.Module]] = BertEmbeddings
    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = self.embeddings_class(config)
        self.encoder = encoder_of(config)

    @property
    def has_pooler(self) -> bool:
        """Whether a layer of its own makes the vector of a text."""
        return "pooler.weight" in self.names()

    def forward(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        starts: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertOutput:
        """Encode a batch of rows.

        Args:
            token_ids: (B, L), integers below V.
            segment_ids: (B, L), 0 for the first text of a pair and 1 for the second; all 0 by default.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default. ``sequence_ids`` replaces it.
            position_ids: (B, L); 0, 1, 2, ... by default.
            sequence_ids: (B, L), k for the k-th text of the row, 0 for padding.
            starts: (N, 2), row and column of each text's first token; column 0 of every row by default.

        Raises:
            UserError: a row is longer than the position embeddings.
        """
        x = self._embed(token_ids, segment_ids, position_ids)  # (B, L, D)
        encoded = self.encoder(x, attention_mask(mask, sequence_ids), output_hidden_states, output_attentions)
        first = encoded.sequence[:, 0] if starts is None else encoded.sequence[starts[:, 0], starts[:, 1]]  # (N, D)
        return BertOutput(encoded.sequence, self.pool(first), encoded.hidden_states, encoded.attentions)

    def forward_pooled(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        starts: Tensor | None = None,
    ) -> Tensor:
        """Return the ``pooled`` vectors (N, D) of :meth:`forward`, and compute nothing else.

        The last block runs for the first token of each text alone; with 20 tokens a text that saves most of it.
        Arguments are those of :meth:`forward`.
        """
        places = first_places(token_ids, starts)
        return self.pool(self.forward_at(token_ids, segment_ids, mask, places, position_ids, sequence_ids))

    def pool(self, first: Tensor) -> Tensor:
        """Return the vectors of texts (N, D) from the last states of their first tokens (N, D): these, as they are."""
        return first

    def forward_at(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None,
        mask: Tensor | None,
        places: Tensor,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
    ) -> Tensor:
        """Return the last hidden states at some places only, (S, D); the last block is computed for no others.

        Args:
            places: (S,) row times L plus column of each token wanted.
            The others are those of :meth:`forward`.
        """
        x = self._embed(token_ids, segment_ids, position_ids)  # (B, L, D)
        rows, columns = places // token_ids.shape[1], places % token_ids.shape[1]
        # Number the places of each row: 0, 1, 2, ... in the order of the sorted rows, less where the row begins.
        counts = torch.bincount(rows, minlength=len(token_ids))  # (B,)
        order = rows.argsort(stable=True)
        numbers = torch.empty_like(rows)
        numbers[order] = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows[order]]
        positions = token_ids.new_zeros(len(token_ids), max(1, int(counts.max())))  # (B, most places of a row)
        positions[rows, numbers] = columns
        encoded = self.encoder(x, attention_mask(mask, sequence_ids), positions=positions)
        return encoded.sequence[rows, numbers]

    def _embed(self, token_ids: Tensor, segment_ids: Tensor | None, position_ids: Tensor | None) -> Tensor:
        """Embed (B, L) ids, with positions 0, 1, 2, ... and segment 0 where none are given."""
        if position_ids is None:
            position_ids = positions_of(token_ids, self.config.max_position_embeddings)
        if segment_ids is None:
            segment_ids = torch.zeros_like(token_ids)
        return self.embeddings(token_ids, segment_ids, position_ids)


class BertModel(TextEncoder):
    """BERT without a head: token ids in, contextual vectors out.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    embeddings: BertEmbeddings

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.apply(lambda module: initialize(module, config.initializer_range))

    def pool(self, first: Tensor) -> Tensor:
        """Return tanh(W h + b) of the last states of the first tokens, (N, D)."""
        return torch.tanh(self.pooler(first))

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        return bert_names(self.config.num_hidden_layers)


def encoder_of(config: BertConfig) -> TransformerEncoder:
    """Return the stack of blocks that a configuration asks for."""
    return TransformerEncoder(
        config.num_hidden_layers,
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        activation=config.hidden_act,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        layer_norm_eps=config.layer_norm_eps,
        num_groups=config.num_groups,
    )


def positions_of(token_ids: Tensor, longest: int) -> Tensor:
    """Return the positions 0, 1, 2, ... of rows (B, L), each with one text: (1, L).

    Raises:
        UserError: the rows are longer than ``longest``, the number of position embeddings.
    """
    length = token_ids.shape[1]
    if length > longest:
        raise UserError(f"input of {length} tokens, but the model has {longest} positions: truncate the text")
    return torch.arange(length, device=token_ids.device).unsqueeze(0)


def first_places(token_ids: Tensor, starts: Tensor | None) -> Tensor:
    """Return the place of each text's first token, row times L plus column: (N,). Arguments as in BertModel."""
    batch, length = token_ids.shape
    if starts is None:
        return torch.arange(0, batch * length, length, device=token_ids.device)
    return starts[:, 0] * length + starts[:, 1]


def attention_mask(mask: Tensor | None, sequence_ids: Tensor | None) -> Tensor | None:
    """Return the attention mask: (B, L, L) for packed rows, (B, L) for padded ones, None where all is kept."""
    if sequence_ids is not None:
        return same_sequence(sequence_ids)
    return None if mask is None else mask.bool()
