"""BERT's encoder (Devlin et al. 2019): three embeddings, a post-LN Transformer encoder, a pooler.

Shape legend: B rows of a batch, L length of a row, D hidden size, V vocabulary, N texts. A row holds one text (then
N = B), or, packed, several texts one after the other (then N > B).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.outputs import BertOutput, Rows
from d2lbert.torch.attention import same_sequence
from d2lbert.torch.encoder import FOREIGN_TOKENIZER, TransformerEncoder, check_ids, initialize
from d2lbert.torch.folder import HuggingFaceFolder, load_named, named_arrays

if TYPE_CHECKING:
    from d2lbert.weights.header import TensorInfo


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
        total = self.word(token_ids) + self.position(position_ids) + self.segment(segment_ids)  # (B, L, D)
        return self.dropout(self.norm(total))


class BertModel(HuggingFaceFolder):
    """BERT without a head: token ids in, contextual vectors out.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
        embeddings, encoder: those of a relative of BERT, instead of BERT's own.
    """

    config_class = BertConfig
    config: BertConfig

    def __init__(
        self, config: BertConfig, embeddings: nn.Module | None = None, encoder: TransformerEncoder | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.embeddings: Any = embeddings or BertEmbeddings(config)
        self.encoder = encoder or TransformerEncoder(config.block, config.num_hidden_layers)
        self.pooler: nn.Linear | None = nn.Linear(config.hidden_size, config.hidden_size)
        self.apply(lambda module: initialize(module, config.initializer_range))

    def forward(
        self,
        token_ids: Tensor | Rows[Tensor],
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertOutput[Tensor]:
        """Encode a batch.

        Args:
            token_ids: (B, L), integers below V; or all tensors of a batch, which may be packed, as
                :class:`~d2lbert.outputs.Rows`.
            segment_ids: (B, L), 0 for the first text of a pair and 1 for the second; all 0 by default.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default.

        Raises:
            UserError: a row is longer than the position embeddings, there are no tokens, or (on a CPU) an id is outside
                its table of embeddings.
        """
        rows = Rows.of(token_ids, segment_ids, mask)
        positions = first_positions(rows)  # (N,)
        x = self.embed(rows)  # (B, L, D)
        encoded = self.encoder(x, attention_mask(rows), output_hidden_states, output_attentions)
        first = encoded.sequence.flatten(0, 1)[positions]  # (B, L, D) -> (B L, D) -> (N, D)
        return BertOutput(encoded.sequence, self.pool(first), encoded.hidden_states, encoded.attentions)

    def embed(self, rows: Rows[Tensor]) -> Tensor:
        """Return the vectors (B, L, D) of tokens; by default the positions are 0, 1, 2, ... and all segments 0.

        Raises:
            UserError: a row without position ids is longer than the position embeddings, or (on a CPU) an id is outside
                its table of embeddings.
        """
        position_ids, segment_ids = rows.position_ids, rows.segment_ids
        if position_ids is None:
            length, longest = rows.token_ids.shape[1], self.config.max_position_embeddings
            if length > longest:
                raise UserError(f"input of {length} tokens, but the model has {longest} positions: truncate the text")
            position_ids = torch.arange(length, device=rows.token_ids.device).unsqueeze(0)  # (1, L)
        if segment_ids is None:
            segment_ids = torch.zeros_like(rows.token_ids)
        try:
            return self.embeddings(rows.token_ids, segment_ids, position_ids)
        except IndexError:
            self._check_ids(rows.token_ids, segment_ids, position_ids)
            raise

    def _check_ids(self, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> None:
        """Name the id that is outside its table, after a look-up that has failed. A GPU does not say that it has."""
        check_ids("token id", token_ids, self.config.vocab_size, FOREIGN_TOKENIZER)
        check_ids("position", position_ids, self.config.max_position_embeddings, "truncate the text")
        check_ids("segment", segment_ids, self.config.type_vocab_size, "number the texts of a pair 0 and 1")

    def pool(self, first: Tensor) -> Tensor:
        """Return the vectors of texts, tanh(W h + b) of the last states h (N, D) of their first tokens.

        A relative without a pooler returns these states unchanged.
        """
        return first if self.pooler is None else torch.tanh(self.pooler(first))

    def forward_pooled(
        self, token_ids: Tensor | Rows[Tensor], segment_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return the ``pooled`` vectors (N, D) of :meth:`forward`, and compute nothing else.

        The last block runs only for the first token of each text. With 20 tokens per text that saves most of its work.
        """
        rows = Rows.of(token_ids, segment_ids, mask)
        return self.pool(self.forward_at(rows, first_positions(rows)))

    def forward_at(self, rows: Rows[Tensor], positions: Tensor) -> Tensor:
        """Return the last hidden states (S, D) of some tokens; the last block is computed for no others.

        Args:
            positions: (S,), row times L plus column of each token.
        """
        batch, length = rows.token_ids.shape
        row, column = positions // length, positions % length  # (S,) each
        columns, slot = group_by_row(row, column, batch)  # (B, W), (S,)
        return self.encoder.forward_at(self.embed(rows), attention_mask(rows), columns)[row, slot]

    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""
        from d2lbert.weights.bert import bert_names

        return bert_names(self.config.num_hidden_layers)

    @classmethod
    def file_shapes(cls, config: Any) -> dict[str, tuple[int, ...]]:
        """Return the shape of each parameter under Hugging Face's names."""
        from d2lbert.weights.bert import bert_file_shapes

        return bert_file_shapes(config)

    @classmethod
    def check_file(cls, header: Mapping[str, TensorInfo], config: Any, origin: Path) -> None:
        """Refuse a file whose header does not fit the configuration."""
        from d2lbert.weights.folder import check_header

        check_header(header, cls.file_shapes(config), origin)

    @classmethod
    def is_complete(cls, tensors: Mapping[str, np.ndarray]) -> bool:
        """Whether the tensors of a file that was not refused hold every parameter: it may lack the pooler alone."""
        from d2lbert.weights.bert import has_pooler

        return has_pooler(tensors)

    def complete(self, tensors: dict[str, np.ndarray], origin: Path) -> dict[str, np.ndarray]:
        """Return the tensors of a file, with a new pooler if the file has none and the model needs one."""
        from d2lbert.weights.bert import with_pooler

        return tensors if self.pooler is None else with_pooler(tensors, self.tensors, origin)

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Load NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        load_named(self, self.names(), tensors, origin)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        return named_arrays(self, self.names())


def attention_mask(rows: Rows[Tensor]) -> Tensor | None:
    """Return the attention mask, True = keep: (B, L, L) for packed rows, (B, L) for padded ones, None to keep all."""
    if rows.sequence_ids is not None:
        return same_sequence(rows.sequence_ids)
    return None if rows.mask is None else rows.mask.bool()


def first_positions(rows: Rows[Tensor]) -> Tensor:
    """Return the position of the first token of each text, (N,): row times L plus column.

    Raises:
        UserError: there are no tokens.
    """
    batch, length = rows.token_ids.shape
    if not rows.token_ids.numel():
        raise UserError("the batch has no tokens: give at least one text, [CLS] and [SEP] around it")
    if rows.starts is None:
        return torch.arange(0, batch * length, length, device=rows.token_ids.device)
    return rows.starts[:, 0] * length + rows.starts[:, 1]


def group_by_row(row: Tensor, column: Tensor, batch: int) -> tuple[Tensor, Tensor]:
    """Group S tokens by their rows.

    Args:
        row, column: (S,) each, of the tokens.
        batch: B.

    Returns:
        The columns of the tokens of each row, (B, W), with W those of the fullest row and 0 filling up the others; and
        where in its row of that table each token is, (S,).
    """
    counts = torch.bincount(row, minlength=batch)  # (B,)
    order = row.argsort(stable=True)  # (S,), row after row
    slot = torch.empty_like(row)
    slot[order] = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row[order]]
    columns = row.new_zeros(batch, max(1, int(counts.max())))
    columns[row, slot] = column
    return columns, slot
