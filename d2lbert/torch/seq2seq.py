"""Recurrent networks: the cells, a language model, and the encoder-decoder with and without attention.

Shape legend: B batch, M length of the source, L length of the target, E embedding size, D hidden size, V vocabulary,
N recurrent layers.

The cells are written out to be read. The models run torch.nn's layers, which compute the same numbers (tests show it)
with one call for a whole sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from d2lbert.config.translation import Seq2SeqConfig
from d2lbert.outputs import Seq2SeqOutput
from d2lbert.torch.attention import AdditiveAttention, DotProductAttention
from d2lbert.torch.encoder import Embedding
from d2lbert.torch.folder import load_model, save_model

# The state of a stack of layers: one tensor (N, B, D) for a GRU, two for an LSTM (hidden state and memory cell).
Recurrent = tuple[Tensor, ...]


class GruCell(nn.Module):
    """One step of a gated recurrent unit (Cho et al. 2014, section 2.3).

    r = s(W_r x + U_r h), the reset gate: how much of the old state the proposal may use.
    z = s(W_z x + U_z h), the update gate: how much of the old state stays.
    n = tanh(W_n x + r * (U_n h)), the proposal; the new state is (1 - z) * n + z * h.

    Every W and U has a bias. As in torch.nn, the reset gate acts after U_n; in the paper it acts before.
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 3 * hidden_size)  # W_r, W_z, W_n one above the other
        self.hidden = nn.Linear(hidden_size, 3 * hidden_size)  # U_r, U_z, U_n

    def forward(self, x: Tensor, state: Recurrent) -> Recurrent:
        """Return the new state ((B, D),), given an input (B, E) and the state before."""
        (h,) = state
        x_reset, x_update, x_new = self.input(x).chunk(3, dim=-1)
        h_reset, h_update, h_new = self.hidden(h).chunk(3, dim=-1)
        reset, update = torch.sigmoid(x_reset + h_reset), torch.sigmoid(x_update + h_update)
        new = torch.tanh(x_new + reset * h_new)
        return ((1 - update) * new + update * h,)


class LstmCell(nn.Module):
    """One step of a long short-term memory (Hochreiter and Schmidhuber 1997; the forget gate is of Gers et al. 2000).

    i, f, o = s(W x + U h), the input, forget and output gates; g = tanh(W x + U h), the proposal.
    The memory cell becomes f * c + i * g, the hidden state o * tanh(c).
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input = nn.Linear(input_size, 4 * hidden_size)  # for i, f, g, o
        self.hidden = nn.Linear(hidden_size, 4 * hidden_size)

    def forward(self, x: Tensor, state: Recurrent) -> Recurrent:
        """Return the new hidden state and memory cell, each (B, D)."""
        h, c = state
        i, f, g, o = (self.input(x) + self.hidden(h)).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def unroll(cell: nn.Module, x: Tensor, state: Recurrent) -> tuple[Tensor, Recurrent]:
    """Apply a cell to every position of x (B, L, E) in turn; return all hidden states (B, L, D) and the last state."""
    outputs = []
    for position in range(x.shape[1]):
        state = cell(x[:, position], state)
        outputs.append(state[0])
    return torch.stack(outputs, dim=1), state


class LanguageModel(nn.Module):
    """What comes next? A recurrent network over characters or words (Mikolov et al. 2010).

    Args:
        vocab_size: V.  embedding_size: E.  hidden_size: D.
        cell: ``"gru"`` or ``"lstm"``.
    """

    def __init__(self, vocab_size: int, embedding_size: int, hidden_size: int, cell: str = "gru") -> None:
        super().__init__()
        self.embedding = Embedding(vocab_size, embedding_size)
        self.recurrent = _layers(cell, embedding_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)

    def forward(self, token_ids: Tensor, state: Recurrent | None = None) -> tuple[Tensor, Recurrent]:
        """Return scores (B, L, V) of the token after each of (B, L), and the state to go on from."""
        hidden, state = _run(self.recurrent, self.embedding(token_ids), state)
        return self.output(hidden), state

    @torch.inference_mode()
    def generate(
        self, ids: Sequence[int], length: int, temperature: float = 1.0, generator: torch.Generator | None = None
    ) -> list[int]:
        """Continue ``ids`` by ``length`` tokens.

        Args:
            temperature: 0 takes the most probable token; 1 draws by the model's probabilities; between them lies more
                or less daring.
        """
        written = list(ids)
        scores, state = self(torch.tensor([written], device=self.output.weight.device))
        for _ in range(length):
            last = scores[0, -1]
            if temperature:
                # Drawn on the processor, where a seed means the same on every machine.
                drawn = torch.multinomial((last / temperature).softmax(dim=-1).cpu(), 1, generator=generator)
            else:
                drawn = last.argmax(dim=-1, keepdim=True)
            written.append(int(drawn))
            scores, state = self(drawn.unsqueeze(0).to(last.device), state)
        return written


@dataclass
class Seq2SeqState:
    """Where decoding stands.

    Fields:
        hidden: the decoder's state.
        memory: (B, M, D), the encoder's hidden states.
        keys: (B, M, D), the memory as the attention's score wants it.
        context: (B, D), what the source is to a decoder without attention: the encoder's last state.
        source_mask: (B, M), True = keep.
        last: (B,), the token that the first step is given.
    """

    hidden: Recurrent
    memory: Tensor
    keys: Tensor
    context: Tensor
    source_mask: Tensor | None
    last: Tensor

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may come more than once."""
        self.hidden = tuple(tensor.index_select(1, rows) for tensor in self.hidden)
        self.memory, self.keys = self.memory.index_select(0, rows), self.keys.index_select(0, rows)
        self.context, self.last = self.context.index_select(0, rows), self.last.index_select(0, rows)
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, rows)


class Seq2Seq(nn.Module):
    """A recurrent encoder and a recurrent decoder.

    The decoder's input is the last token's vector joined to a context: always the encoder's last state (Cho et al.
    2014), or an average of the encoder's states with weights that attention chooses anew at every step, by an additive
    score (Bahdanau et al. 2015) or a dot product (Luong et al. 2015). The query is the decoder's state before the step,
    as in Bahdanau's paper, for both scores; the dot product is scaled as in the Transformer. The output layer sees
    the new state and the context through one tanh layer, Luong's attentional vector (equation 5).

    Args:
        config: the sizes. Weights start at random; :meth:`from_pretrained` loads trained ones.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        embedded, hidden, layers = config.embedding_size, config.hidden_size, config.num_hidden_layers
        rate = config.hidden_dropout_prob
        self.target_embedding = Embedding(config.target_vocab_size, embedded)
        self.source_embedding = self.target_embedding
        if not config.share_embeddings:
            self.source_embedding = Embedding(config.source_vocab_size, embedded)
        one_way = hidden // 2 if config.bidirectional else hidden
        self.encoder = _layers(config.cell, embedded, one_way, layers, rate, config.bidirectional)
        self.decoder = _layers(config.cell, embedded + hidden, hidden, layers, rate)
        self.attention: AdditiveAttention | DotProductAttention | None = None
        if config.attention == "additive":
            self.attention = AdditiveAttention(hidden, hidden, hidden)
        elif config.attention == "dot":
            self.attention = DotProductAttention()
        self.readout = nn.Linear(2 * hidden, embedded)
        self.output = nn.Linear(embedded, config.target_vocab_size)
        if config.tie_word_embeddings:
            # As rows of an output layer, vectors of variance 1 would make scores far too large (Press and Wolf 2017).
            nn.init.normal_(self.target_embedding.weight, std=embedded**-0.5)
            self.output.weight = self.target_embedding.weight
        self.dropout = nn.Dropout(rate)

    def forward(
        self, source_ids: Tensor, target_ids: Tensor, source_mask: Tensor | None = None
    ) -> Seq2SeqOutput[Tensor]:
        """Score every position of known targets (teacher forcing: the decoder reads the right tokens, not its own).

        Args:
            source_ids: (B, M).  target_ids: (B, L), each begins with the begin token.
            source_mask: (B, M), ones, then zeros for padding; all 1 by default. Padding of the target comes after all
                real tokens and cannot reach them.

        Raises:
            UserError: on a CPU, an id is outside its vocabulary.
        """
        state = self.start(source_ids, source_mask)
        embedded = self.dropout(self.target_embedding(target_ids))  # (B, L, E)
        if self.attention is None:  # nothing changes from step to step: one call for all
            contexts = state.context.unsqueeze(1).expand(-1, embedded.shape[1], -1)
            hidden, _ = _run(self.decoder, torch.cat([embedded, contexts], dim=-1), state.hidden)
            return Seq2SeqOutput(self._score(hidden, contexts))
        steps = [self._step(x, state) for x in embedded.split(1, dim=1)]
        hidden, contexts, weights = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))
        return Seq2SeqOutput(self._score(hidden, contexts), weights)

    def start(self, source_ids: Tensor, source_mask: Tensor | None = None) -> Seq2SeqState:
        """Encode sources (B, M) and return the state in which no token of the target is known yet."""
        mask = None if source_mask is None else source_mask.bool()
        memory, hidden = self._encode(self.dropout(self.source_embedding(source_ids)), mask)
        keys = self.attention.key(memory) if isinstance(self.attention, AdditiveAttention) else memory
        last = torch.full_like(source_ids[:, 0], self.config.bos_token_id)
        return Seq2SeqState(hidden, memory, keys, hidden[0][-1], mask, last)

    def step(self, token_ids: Tensor, state: Seq2SeqState) -> Tensor:
        """Return scores (B, V) of the token that follows ``token_ids`` (B,), the last known; ``state`` moves on."""
        hidden, context, _ = self._step(self.target_embedding(token_ids).unsqueeze(1), state)
        return self._score(hidden, context)[:, 0]

    def _encode(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Recurrent]:
        """Return the memory (B, M, D) and the last state of every layer; both directions side by side."""
        if mask is None:
            memory, hidden = _run(self.encoder, x, None)
        else:
            # Packed, the layers stop at the end of each row, so the last state is not one of padding.
            packed = pack_padded_sequence(x, mask.sum(dim=1).cpu(), batch_first=True, enforce_sorted=False)
            states, last = self.encoder(packed)
            memory, _ = pad_packed_sequence(states, batch_first=True, total_length=x.shape[1])
            hidden = last if isinstance(last, tuple) else (last,)
        if self.config.bidirectional:
            hidden = tuple(torch.cat([tensor[0::2], tensor[1::2]], dim=-1) for tensor in hidden)
        return memory, hidden

    def _step(self, x: Tensor, state: Seq2SeqState) -> tuple[Tensor, Tensor, Tensor]:
        """Take one step with the embedded token x (B, 1, E); return state, context (B, 1, D) and weights (B, 1, M)."""
        query, mask = state.hidden[0][-1].unsqueeze(1), state.source_mask  # (B, 1, D)
        weights = x.new_zeros(len(x), 1, 0)
        if isinstance(self.attention, AdditiveAttention):
            context, weights = self.attention.attend(query, state.keys, state.memory, mask)
        elif self.attention is not None:
            context, weights = self.attention(query, state.keys, state.memory, mask)
        else:
            context = state.context.unsqueeze(1)
        hidden, state.hidden = _run(self.decoder, torch.cat([x, context], dim=-1), state.hidden)
        return hidden, context, weights

    def _score(self, hidden: Tensor, contexts: Tensor) -> Tensor:
        """Return logits (B, L, V) from the decoder's states and contexts, each (B, L, D)."""
        return self.output(self.dropout(torch.tanh(self.readout(torch.cat([hidden, contexts], dim=-1)))))

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Seq2Seq:
        """Load a folder that :meth:`save_pretrained` wrote.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.weights.shapes import seq2seq_shapes

        return load_model(cls, Seq2SeqConfig, folder, seq2seq_shapes)

    def save_pretrained(self, folder: str | Path, half: bool = False) -> None:
        """Write ``config.json`` and ``model.safetensors``; ``half`` stores 16 bits a number, half the size."""
        save_model(self, folder, half)


def _layers(
    cell: str, input_size: int, hidden_size: int, layers: int = 1, dropout: float = 0.0, bidirectional: bool = False
) -> nn.Module:
    """Return torch.nn's GRU or LSTM; dropout acts between layers."""
    kind = nn.LSTM if cell == "lstm" else nn.GRU
    between = dropout if layers > 1 else 0.0
    return kind(input_size, hidden_size, layers, batch_first=True, dropout=between, bidirectional=bidirectional)


def _run(layers: nn.Module, x: Tensor, state: Recurrent | None) -> tuple[Tensor, Recurrent]:
    """Run torch.nn's layers on (B, L, E); a GRU wants and gives a tensor where an LSTM has a pair."""
    hidden, last = layers(x, state[0] if state is not None and len(state) == 1 else state)
    return hidden, last if isinstance(last, tuple) else (last,)
