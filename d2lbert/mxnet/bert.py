"""BERT's encoder (Devlin et al. 2019): three embeddings, a post-LN Transformer encoder, a pooler.

Shape legend: B rows of a batch, L length of a row, D hidden size, H heads, V vocabulary, N texts. A row holds one text
(then N = B), or, packed, several texts one after the other (then N > B).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from mxnet import nd
from mxnet.gluon import nn

from d2lbert.config.bert import BertConfig
from d2lbert.errors import UserError
from d2lbert.mxnet.attention import Tensor, same_sequence
from d2lbert.mxnet.blocks import Block, shared_names
from d2lbert.mxnet.encoder import TransformerEncoder, initialize
from d2lbert.weights.bert import bert_names, with_pooler
from d2lbert.weights.folder import CONFIG_FILE, read_tensors, select, write_folder


@dataclass
class BertOutput:
    """What :class:`BertModel` returns.

    Fields:
        sequence: (B, L, D), the last hidden state of every token.
        pooled: (N, D), tanh(W h + b) of the first token of every text.
        hidden_states: on request, the embeddings and the output of each block, each (B, L, D).
        attentions: on request, the weights of each block, each (B, H, L, L).
    """

    sequence: Tensor
    pooled: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class BertEmbeddings(Block):
    """The sum of word, position and segment embeddings, then LayerNorm and dropout (Devlin et al. 2019, figure 2)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(epsilon=config.layer_norm_eps, in_channels=config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def hybrid_forward(self, F: ModuleType, token_ids: Tensor, segment_ids: Tensor, position_ids: Tensor) -> Tensor:
        """Map ids, each (B, L) or broadcastable to it, to vectors (B, L, D)."""
        total = F.broadcast_add(self.word(token_ids), self.position(position_ids))
        return self.dropout(self.norm(F.broadcast_add(total, self.segment(segment_ids))))


class BertModel(Block):
    """BERT without a head: token ids in, contextual vectors out.

    ``hybridize()`` makes one graph of the embeddings and one of each block; what joins them stays Python.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = TransformerEncoder(
            config.num_hidden_layers,
            config.hidden_size,
            config.num_attention_heads,
            config.intermediate_size,
            activation=config.hidden_act,
            dropout=config.hidden_dropout_prob,
            attention_dropout=config.attention_probs_dropout_prob,
            layer_norm_eps=config.layer_norm_eps,
        )
        self.pooler = nn.Dense(config.hidden_size, flatten=False, in_units=config.hidden_size)
        self.apply(lambda module: initialize(module, config.initializer_range))

    def forward(
        self,
        token_ids: Tensor,
        segment_ids: Tensor | None = None,
        mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        starts: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> BertOutput:
        """Encode a batch of rows.

        A packed row holds several texts. It needs ``position_ids`` that start again at 0 with every text,
        ``sequence_ids`` that confine attention to each text, and ``starts``;
        :func:`d2lbert.data.batching.pack` makes all three.

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
        encoded = self.encoder(x, _keep(mask, sequence_ids), output_hidden_states, output_attentions)
        first = encoded.sequence[:, 0] if starts is None else nd.gather_nd(encoded.sequence, starts.T)  # (N, D)
        return BertOutput(encoded.sequence, self._pool(first), encoded.hidden_states, encoded.attentions)

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
        x = self._embed(token_ids, segment_ids, position_ids)  # (B, L, D)
        if starts is None or sequence_ids is None:
            columns = nd.zeros((len(token_ids), 1), ctx=token_ids.context)
            return self._pool(self.encoder(x, _keep(mask, None), positions=columns).sequence[:, 0])
        rows, columns = starts.asnumpy().astype(np.int64).T
        numbers_in_row = sequence_ids.asnumpy().astype(np.int64)  # (B, L)
        numbers = numbers_in_row[rows, columns] - 1  # which text of its row each text is, from 0
        positions = np.zeros((len(token_ids), numbers_in_row.max()))  # (B, S), S texts in the fullest row
        positions[rows, numbers] = columns
        positions, texts = (nd.array(array, ctx=token_ids.context) for array in (positions, np.stack((rows, numbers))))
        encoded = self.encoder(x, _keep(mask, sequence_ids), positions=positions)
        return self._pool(nd.gather_nd(encoded.sequence, texts))

    def _embed(self, token_ids: Tensor, segment_ids: Tensor | None, position_ids: Tensor | None) -> Tensor:
        """Embed (B, L) ids, with positions 0, 1, 2, ... and segment 0 where none are given."""
        if position_ids is None:
            length, longest = token_ids.shape[1], self.config.max_position_embeddings
            if length > longest:
                raise UserError(f"input of {length} tokens, but the model has {longest} positions: truncate the text")
            position_ids = nd.arange(length, ctx=token_ids.context).expand_dims(0)
        if segment_ids is None:
            segment_ids = nd.zeros_like(token_ids)
        return self.embeddings(token_ids, segment_ids, position_ids)

    def _pool(self, first: Tensor) -> Tensor:
        """Map the vectors (N, D) of first tokens to pooled vectors (N, D)."""
        return nd.tanh(self.pooler(first))

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> BertModel:
        """Load a folder in Hugging Face's layout (``config.json``, ``model.safetensors``), or a name of the zoo.

        Heads in the file (masked words, classification) are left aside. Where it has no pooler, one starts at random,
        with a warning.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        model = cls(BertConfig.from_json(path / CONFIG_FILE))
        model.load_tensors(with_pooler(read_tensors(path), model.tensors, path), path)
        return model

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        parameters = shared_names(self)
        shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
        chosen = select(tensors, bert_names(self.config.num_hidden_layers), shapes, origin)
        for name, array in chosen.items():
            parameters[name].set_data(nd.array(array))

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        parameters = shared_names(self)
        names = bert_names(self.config.num_hidden_layers)
        return {theirs: parameters[ours].data().asnumpy() for ours, theirs in names.items()}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors`` so that ``transformers.BertModel`` loads them."""
        write_folder(folder, self.config, self.tensors())


def _keep(mask: Tensor | None, sequence_ids: Tensor | None) -> Tensor | None:
    """Return the attention mask: (B, L, L) for packed rows, (B, L) for padded ones, None where all is kept."""
    return mask if sequence_ids is None else same_sequence(sequence_ids)
