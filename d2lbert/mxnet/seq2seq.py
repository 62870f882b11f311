"""The recurrent encoder-decoder with and without attention, the twin of :mod:`d2lbert.torch.seq2seq`.

For use and for training with teacher forcing; searching for an output is left to the PyTorch edition.

Shape legend: B batch, M length of the source, L length of the target, E embedding size, D hidden size, V vocabulary,
N recurrent layers.
"""

from __future__ import annotations

from pathlib import Path

from mxnet import gluon, init, nd
from mxnet.gluon import nn

from d2lbert.config.translation import Seq2SeqConfig
from d2lbert.mxnet.attention import AdditiveAttention, DotProductAttention, Tensor
from d2lbert.mxnet.blocks import Embedding
from d2lbert.mxnet.folder import load_model, save_model
from d2lbert.outputs import Seq2SeqOutput

# The state of a stack of layers: one array (N, B, D) for a GRU, two for an LSTM (hidden state and memory cell).
Recurrent = tuple[Tensor, ...]
_GATES = {"gru": 3, "lstm": 4}


class _RecurrentLayers(gluon.Block):
    """Layers of GRU or LSTM cells, in one direction or two. The parameters have torch.nn's names and order of gates.

    Args:
        cell: ``"gru"`` or ``"lstm"``.
        dropout: rate between layers.
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.cell, self.hidden_size, self.num_layers = cell, hidden_size, num_layers
        self.directions = ("", "_reverse") if bidirectional else ("",)
        self.dropout = nn.Dropout(dropout)
        rows = _GATES[cell] * hidden_size
        for layer in range(num_layers):
            size = hidden_size * len(self.directions) if layer else input_size
            for direction in self.directions:
                shapes = {"weight_ih": (rows, size), "weight_hh": (rows, hidden_size), "bias_ih": rows, "bias_hh": rows}
                for kind, shape in shapes.items():
                    name = f"{kind}_l{layer}{direction}"
                    setattr(self, name, self.params.get(name, shape=shape, init=init.Uniform(hidden_size**-0.5)))

    def forward(
        self, x: Tensor, mask: Tensor | None = None, state: Recurrent | None = None
    ) -> tuple[Tensor, Recurrent]:
        """Return the states of the last layer (B, L, directions * size) and the last state of every layer.

        Args:
            x: (B, L, input size).
            mask: (B, L), 1 for a token and 0 for padding, which stands at the end and changes no state.
            state: where to begin; zeros by default. Each array is (N * directions, B, size).
        """
        mask = nd.ones(x.shape[:2], ctx=x.context) if mask is None else mask.astype("float32")
        count = 2 if self.cell == "lstm" else 1
        shape = (self.num_layers * len(self.directions), x.shape[0], self.hidden_size)
        begin = state if state is not None else tuple(nd.zeros(shape, ctx=x.context) for _ in range(count))
        ends: list[Recurrent] = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in self.directions:
                first = tuple(array[len(ends)] for array in begin)
                y, end = self._run(f"l{layer}{direction}", self.dropout(x) if layer else x, mask, first)
                outputs.append(y)
                ends.append(end)
            x = nd.concat(*outputs, dim=-1)
        return x, tuple(nd.stack(*arrays) for arrays in zip(*ends, strict=True))

    def _run(self, name: str, x: Tensor, mask: Tensor, state: Recurrent) -> tuple[Tensor, Recurrent]:
        """Run one layer in one direction over (B, L, size)."""
        weight_ih, weight_hh, bias_ih, bias_hh = (
            getattr(self, f"{kind}_{name}").data(x.context) for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        rows = _GATES[self.cell] * self.hidden_size
        of_x = nd.FullyConnected(x, weight_ih, bias_ih, num_hidden=rows, flatten=False)  # all positions at once
        positions = range(x.shape[1])
        outputs: dict[int, Tensor] = {}
        for position in reversed(positions) if name.endswith("_reverse") else positions:
            keep = mask[:, position].expand_dims(1)  # (B, 1)
            of_state = nd.FullyConnected(state[0], weight_hh, bias_hh, num_hidden=rows)
            new = (_gru if self.cell == "gru" else _lstm)(of_x[:, position], of_state, state)
            state = tuple(keep * one + (1 - keep) * before for one, before in zip(new, state, strict=True))
            outputs[position] = keep * new[0]
        return nd.stack(*(outputs[position] for position in positions), axis=1), state


def _gru(of_x: Tensor, of_state: Tensor, state: Recurrent) -> Recurrent:
    """Take a step of a GRU, given the products (B, 3 D) of input and state with their matrices."""
    x_reset, x_update, x_new = of_x.split(num_outputs=3, axis=-1)
    h_reset, h_update, h_new = of_state.split(num_outputs=3, axis=-1)
    reset, update = nd.sigmoid(x_reset + h_reset), nd.sigmoid(x_update + h_update)
    return ((1 - update) * nd.tanh(x_new + reset * h_new) + update * state[0],)


def _lstm(of_x: Tensor, of_state: Tensor, state: Recurrent) -> Recurrent:
    """Take a step of an LSTM, given the products (B, 4 D) of input and state with their matrices."""
    i, f, g, o = (of_x + of_state).split(num_outputs=4, axis=-1)
    cell = nd.sigmoid(f) * state[1] + nd.sigmoid(i) * nd.tanh(g)
    return nd.sigmoid(o) * nd.tanh(cell), cell


class Seq2Seq(gluon.Block):
    """A recurrent encoder and a recurrent decoder; see :class:`d2lbert.torch.seq2seq.Seq2Seq` for the three kinds.

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        embedded, hidden, layers = config.embedding_size, config.hidden_size, config.num_hidden_layers
        rate = config.hidden_dropout_prob
        self.target_embedding = Embedding(config.target_vocab_size, embedded)
        if config.share_embeddings:
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = Embedding(config.source_vocab_size, embedded)
        one_way = hidden // 2 if config.bidirectional else hidden
        self.encoder = _RecurrentLayers(config.cell, embedded, one_way, layers, rate, config.bidirectional)
        self.decoder = _RecurrentLayers(config.cell, embedded + hidden, hidden, layers, rate)
        self.attention: AdditiveAttention | DotProductAttention | None = None
        if config.attention == "additive":
            self.attention = AdditiveAttention(hidden, hidden, hidden)
        elif config.attention == "dot":
            self.attention = DotProductAttention()
        self.readout = nn.Dense(embedded, flatten=False, in_units=2 * hidden)
        # Two layers with one dictionary of parameters share the one that both call "weight".
        tied = self.target_embedding.params if config.tie_word_embeddings else None
        self.output = nn.Dense(config.target_vocab_size, flatten=False, in_units=embedded, params=tied)
        self.dropout = nn.Dropout(rate)
        self.initialize()

    def forward(
        self, source_ids: Tensor, target_ids: Tensor, source_mask: Tensor | None = None
    ) -> Seq2SeqOutput[Tensor]:
        """Score every position of known targets (teacher forcing: the decoder reads the right tokens, not its own).

        Args:
            source_ids: (B, M).  target_ids: (B, L), each begins with the begin token.
            source_mask: (B, M), ones, then zeros for padding; all 1 by default. Padding of the target comes after all
                real tokens and cannot reach them.
        """
        memory, state = self.encoder(self.dropout(self.source_embedding(source_ids)), source_mask)
        if self.config.bidirectional:  # both directions side by side: (2 N, B, D / 2) -> (N, B, D)
            state = tuple(nd.concat(array[0::2], array[1::2], dim=-1) for array in state)
        context = state[0][-1].expand_dims(1)  # (B, 1, D): all that a decoder without attention knows of the source
        embedded = self.dropout(self.target_embedding(target_ids))  # (B, L, E)
        outputs, contexts, weights = [], [], []
        for position in range(target_ids.shape[1]):
            if self.attention is not None:
                query = state[0][-1].expand_dims(1)  # (B, 1, D): the decoder's state before the step
                context, looks = self.attention(query, memory, memory, source_mask)
                weights.append(looks)
            x = nd.concat(embedded[:, position : position + 1], context, dim=-1)
            hidden, state = self.decoder(x, None, state)
            outputs.append(hidden)
            contexts.append(context)
        joined = nd.concat(nd.concat(*outputs, dim=1), nd.concat(*contexts, dim=1), dim=-1)  # (B, L, 2 D)
        logits = self.output(self.dropout(nd.tanh(self.readout(joined))))
        return Seq2SeqOutput(logits, nd.concat(*weights, dim=1) if weights else None)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Seq2Seq:
        """Load a folder that :meth:`save_pretrained` of either edition wrote.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.weights.shapes import seq2seq_shapes

        model: Seq2Seq = load_model(cls, Seq2SeqConfig, folder, seq2seq_shapes)
        return model

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write ``config.json`` and ``model.safetensors``; ``half`` stores 16 bits a number, half the size."""
        save_model(self, folder, half)
