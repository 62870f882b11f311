"""BERT's encoder (Devlin et al. 2019): three embeddings, a post-LN Transformer encoder, a pooler.

Shape legend: B rows of a batch, L length of a row, D hidden size, H heads, V vocabulary, N texts. A row holds one text
(then N = B), or, packed, several texts one after the other (then N > B).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from mxnet import nd
from mxnet.gluon import nn

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor, same_sequence
from d2lbert.mxnet.blocks import Block, Embedding
from d2lbert.mxnet.encoder import TransformerEncoder, initialize
from d2lbert.mxnet.folder import HuggingFaceFolder, load_named, named_arrays
from d2lbert.outputs import BertOutput, Rows

if TYPE_CHECKING:
    from d2lbert.weights.header import TensorInfo


class BertEmbeddings(Block):
    """The sum of word, position and segment embeddings, then LayerNorm and dropout (Devlin et al. 2019, figure 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word = Embedding(config.vocab_size, config.hidden_size)
        self.position = Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(epsilon=config.layer_norm_eps, in_channels=config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def hybrid_forward(self, F: ModuleType, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        total = F.broadcast_add(self.word(token_ids), self.position(position_ids))
        return self.dropout(self.norm(F.broadcast_add(total, self.segment(segment_ids))))


class BertModel(HuggingFaceFolder):
    """BERT without a head: token ids in, contextual vectors out.

    ``hybridize()`` makes one graph of the embeddings and one of each block; what joins them stays Python.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    config_class = BertConfig
    config: BertConfig

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = TransformerEncoder(config.block, config.num_hidden_layers)
        self.pooler = nn.Dense(config.hidden_size, flatten=False, in_units=config.hidden_size)
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
            token_ids: (B, L), integers below V; or all arrays of a batch, which may be packed, as
                :class:`~d2lbert.outputs.Rows`.
            segment_ids: (B, L), 0 for the first text of a pair and 1 for the second; all 0 by default.
            mask: (B, L), 1 for a token and 0 for padding; all 1 by default.

        Raises:
            UserError: a row is longer than the position embeddings.
        """
        rows = Rows.of(token_ids, segment_ids, mask)
        x = self.embed(rows)  # (B, L, D)
        encoded = self.encoder(x, attention_mask(rows), output_hidden_states, output_attentions)
        first = encoded.sequence.reshape((-3, 0)).take(first_positions(rows))  # (B, L, D) -> (B L, D) -> (N, D)
        return BertOutput(encoded.sequence, self.pool(first), encoded.hidden_states, encoded.attentions)

    def embed(self, rows: Rows[Tensor]) -> Tensor:
        """Return the vectors (B, L, D) of tokens, with positions 0, 1, 2, ... and segment 0 where none are given."""
        position_ids, segment_ids = rows.position_ids, rows.segment_ids
        if position_ids is None:
            length, longest = rows.token_ids.shape[1], self.config.max_position_embeddings
            if length > longest:
                raise UserError(f"input of {length} tokens, but the model has {longest} positions: truncate the text")
            position_ids = nd.arange(length, ctx=rows.token_ids.context).expand_dims(0)  # (1, L)
        if segment_ids is None:
            segment_ids = nd.zeros_like(rows.token_ids)
        return self.embeddings(rows.token_ids, segment_ids, position_ids)

    def pool(self, first: Tensor) -> Tensor:
        """Return the vectors of texts, tanh(W h + b) of the last states h (N, D) of their first tokens."""
        return nd.tanh(self.pooler(first))

    def forward_pooled(
        self, token_ids: Tensor | Rows[Tensor], segment_ids: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """Return the ``pooled`` vectors (N, D) of :meth:`forward`, and compute nothing else.

        The last block runs for the first token of each text alone; with 20 tokens a text that saves most of it.
        """
        rows = Rows.of(token_ids, segment_ids, mask)
        return self.pool(self.forward_at(rows, first_positions(rows)))

    def forward_at(self, rows: Rows[Tensor], positions: Tensor) -> Tensor:
        """Return the last hidden states (S, D) of some tokens; the last block is computed for no others.

        Args:
            positions: (S,), row times L plus column of each token.
        """
        batch, length = rows.token_ids.shape
        device = rows.token_ids.context
        row, column = np.divmod(positions.asnumpy().astype(np.int64), length)  # (S,) each
        columns, number = group_by_row(row, column, batch)  # (B, most of a row), (S,)
        states = self.encoder.forward_at(self.embed(rows), attention_mask(rows), nd.array(columns, ctx=device))
        return nd.gather_nd(states, nd.array(np.stack((row, number)), ctx=device))

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

    def complete(self, tensors: dict[str, np.ndarray], origin: Path) -> dict[str, np.ndarray]:
        """Return the tensors of a file, with a new pooler where it has none."""
        from d2lbert.weights.bert import with_pooler

        return with_pooler(tensors, self.tensors, origin)

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        load_named(self, self.names(), tensors, origin)

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        return named_arrays(self, self.names())


def attention_mask(rows: Rows[Tensor]) -> Tensor | None:
    """Return who may be attended to: (B, L, L) for packed rows, (B, L) for padded ones, None where all are."""
    return rows.mask if rows.sequence_ids is None else same_sequence(rows.sequence_ids)


def first_positions(rows: Rows[Tensor]) -> Tensor:
    """Return where each text begins, (N,): row times L plus column."""
    batch, length = rows.token_ids.shape
    if rows.starts is None:
        return nd.arange(0, batch * length, length, ctx=rows.token_ids.context, dtype="int32")
    starts = rows.starts.astype("int32")
    return starts[:, 0] * length + starts[:, 1]


def group_by_row(row: np.ndarray, column: np.ndarray, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """Lay S columns out by their rows: return the columns of each row, (B, most of a row), and the place there, (S,).

    A row with fewer columns than the fullest is filled up with column 0. All are arrays of NumPy: the shape depends
    on the numbers.
    """
    counts = np.bincount(row, minlength=batch)  # (B,)
    order = row.argsort(kind="stable")  # (S,), row after row
    number = np.empty_like(row)
    number[order] = np.arange(len(row)) - (counts.cumsum() - counts)[row[order]]
    columns = np.zeros((batch, max(1, int(counts.max()))), dtype=np.int64)
    columns[row, number] = column
    return columns, number
