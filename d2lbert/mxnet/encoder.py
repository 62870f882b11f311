"""The encoder half of the Transformer (Vaswani et al. 2017), the part that BERT is made of.

The decoder half is in ``decoder.py``, the whole model in ``transformer.py``.

Shape legend: B batch, L length, D hidden size, H heads, F width inside the feed-forward network. As an argument of
``hybrid_forward``, F is MXNet's module of operations instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from mxnet import gluon, init, nd
from mxnet.gluon import nn

from d2lbert.mxnet.attention import MultiHeadAttention, Tensor, per_query
from d2lbert.mxnet.blocks import Block, is_array, operations


def _relu(x: Tensor) -> Tensor:
    return operations(x).relu(x)


def _gelu(x: Tensor) -> Tensor:
    """x Phi(x), where Phi is the distribution function of the standard normal: (1 + erf(x / sqrt 2)) / 2."""
    return 0.5 * x * (1 + operations(x).erf(x / math.sqrt(2)))


def _gelu_new(x: Tensor) -> Tensor:
    """The tanh approximation (Hendrycks and Gimpel 2016, section 2)."""
    return 0.5 * x * (1 + operations(x).tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


# BERT's paper and checkpoints use the exact GELU, x Phi(x) with the error function; GPT-2 uses the tanh formula.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": _relu, "gelu": _gelu, "gelu_new": _gelu_new}


class SinusoidalPositions(Block):
    """Add fixed waves to the embeddings, so that order matters (Vaswani et al. 2017, section 3.5).

    P[i, 2j] = sin(i / 10000^(2j / D)) and P[i, 2j + 1] = cos(i / 10000^(2j / D)): column pair j turns with a
    wavelength of 2 pi 10000^(2j / D) positions.
    """

    def __init__(self, hidden_size: int, max_length: int = 1000, dropout: float = 0.0) -> None:
        super().__init__()
        positions = np.arange(max_length, dtype=np.float32)[:, None]  # (max_length, 1)
        exponents = np.arange(0, hidden_size, 2, dtype=np.float32) / hidden_size  # 2j / D
        angles = positions / 10000**exponents  # (max_length, ceil(D / 2))
        table = np.zeros((max_length, hidden_size), dtype=np.float32)
        table[:, 0::2] = np.sin(angles)
        table[:, 1::2] = np.cos(angles[:, : hidden_size // 2])
        self.max_length = max_length
        # Computed, not learned: a constant follows the block to its device and gets no gradient.
        self.table = self.params.get_constant("table", table)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Add the first L positions to x (B, L, D)."""
        if is_array(x) and x.shape[1] > self.max_length:
            raise ValueError(f"input of length {x.shape[1]} is longer than the table of {self.max_length} positions")
        return super().forward(x)

    def hybrid_forward(self, F: ModuleType, x: Tensor, table: Tensor) -> Tensor:
        """Compute; the constant table (max_length, D) comes in as an argument."""
        rows = F.slice_like(F.expand_dims(table, axis=0), x, axes=(1,))  # (1, L, D)
        return self.dropout(F.broadcast_add(x, rows))


class FeedForward(Block):
    """The position-wise network (Vaswani et al. 2017, section 3.3): expand to F, activate, project back to D.

    The same two layers act on every position by themselves, so they are two convolutions of width one.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str = "relu") -> None:
        super().__init__()
        self.expand = nn.Dense(intermediate_size, flatten=False, in_units=hidden_size)
        self.project = nn.Dense(hidden_size, flatten=False, in_units=intermediate_size)
        self.activation = ACTIVATIONS[activation]

    def hybrid_forward(self, F: ModuleType, x: Tensor) -> Tensor:
        """Map (B, L, D) to (B, L, D)."""
        return self.project(self.activation(self.expand(x)))  # (B, L, F) inside


class TransformerEncoderBlock(Block):
    """Self-attention and a feed-forward network, each inside a residual connection with LayerNorm.

    Post-LN, as in the 2017 paper and in BERT: x = LayerNorm(x + Sublayer(x)).
    Pre-LN (``norm_first``), as in GPT-2: x = x + Sublayer(LayerNorm(x)).

    Args:
        hidden_size: D.  num_heads: H.  intermediate_size: F.
        activation: a key of ``ACTIVATIONS``.
        dropout: rate of dropout on the output of each sublayer, before it is added.
        attention_dropout: rate of dropout on the attention weights.
        layer_norm_eps: the constant in LayerNorm; BERT has 1e-12.
        norm_first: False for post-LN, True for pre-LN.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        activation: str = "relu",
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(hidden_size, num_heads, attention_dropout)
        self.attention_norm = nn.LayerNorm(epsilon=layer_norm_eps, in_channels=hidden_size)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(epsilon=layer_norm_eps, in_channels=hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new hidden states (B, L, D) and, on request, the attention weights (B, H, L, L).

        Args:
            x: (B, L, D).  mask: (B, L) or (B, L, L), 1 = keep.
            positions: (B, S), compute the new states of these positions alone, (B, S, D). They still attend to all
                of x; what the others would have become is never computed.
        """
        mask = per_query(mask)
        if mask is None and is_array(x):
            mask = nd.ones((1, 1, 1), ctx=x.context)  # so that calls with and without a mask share one graph
        picked = x
        if positions is not None:
            picked = _pick(x, positions)  # (B, S, D)
            mask = _pick(mask, positions) if mask is not None and mask.shape[1] > 1 else mask
        y, weights = super().forward(picked, x, mask)
        return y, weights if need_weights else None

    def hybrid_forward(self, F: ModuleType, x: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the new states of x (B, S, D), which attends to memory (B, L, D); the mask has three axes."""
        queries = x
        if self.norm_first:
            queries, memory = self.attention_norm(x), self.attention_norm(memory)
        attended, weights = self.attention(queries, memory, memory, mask, True)
        x = x + self.dropout(attended)
        if self.norm_first:
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), weights
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x))), weights


def _pick(x: Tensor, positions: Tensor) -> Tensor:
    """Pick rows of a (B, L, E) array at positions (B, S): (B, S, E)."""
    rows = nd.arange(len(positions), ctx=x.context).expand_dims(1).broadcast_like(positions)  # (B, S)
    return nd.gather_nd(x, nd.stack(rows, positions.astype("float32"), axis=0))


@dataclass
class EncoderOutput:
    """What an encoder returns.

    Fields:
        sequence: (B, L, D), the last hidden states.
        hidden_states: on request, the input of the first block and the output of every block, each (B, L, D).
        attentions: on request, the weights of every block, each (B, H, L, L).
    """

    sequence: Tensor
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class TransformerEncoder(Block):
    """A stack of encoder blocks. Vectors in, vectors out: embeddings are the caller's.

    ``hybridize()`` makes one graph of each block; the loop over the blocks stays Python.

    Args:
        num_layers: how many blocks.
        final_norm: LayerNorm after the last block; a pre-LN stack needs it, a post-LN stack does not.
        The others are those of :class:`TransformerEncoderBlock`.
    """

    def __init__(
        self,
        num_layers: int,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        activation: str = "relu",
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        final_norm: bool = False,
    ) -> None:
        super().__init__()
        self.blocks = nn.HybridSequential()
        for _ in range(num_layers):
            block = TransformerEncoderBlock(
                hidden_size,
                num_heads,
                intermediate_size,
                activation,
                dropout,
                attention_dropout,
                layer_norm_eps,
                norm_first,
            )
            self.blocks.add(block)
        self.norm = nn.LayerNorm(epsilon=layer_norm_eps, in_channels=hidden_size) if final_norm else None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        positions: Tensor | None = None,
    ) -> EncoderOutput:
        """Run x (B, L, D) through every block.

        Args:
            x: (B, L, D).  mask: (B, L) or (B, L, L), 1 = keep.
            positions: (B, S), where only these positions of the last block are wanted; ``sequence`` is then (B, S, D).
        """
        hidden_states, attentions = [x], []
        for number, block in enumerate(self.blocks, start=1):
            last = number == len(self.blocks)
            x, weights = block(x, mask, output_attentions, positions if last else None)
            if output_hidden_states:
                hidden_states.append(x)
            if weights is not None:
                attentions.append(weights)
        if self.norm is not None:
            x = self.norm(x)
        return EncoderOutput(
            x,
            tuple(hidden_states) if output_hidden_states else None,
            tuple(attentions) if output_attentions else None,
        )


def initialize(module: gluon.Block, standard_deviation: float) -> None:
    """Give dense layers and embeddings normal weights, zero biases; LayerNorm starts as the identity.

    Apply it with ``model.apply``; the standard deviation is 0.02 in BERT.
    """
    if isinstance(module, nn.Dense | nn.Embedding):
        module.weight.initialize(init.Normal(standard_deviation), force_reinit=True)
    if isinstance(module, nn.Dense) and module.bias is not None:
        module.bias.initialize(init.Zero(), force_reinit=True)
    if isinstance(module, nn.LayerNorm):
        module.gamma.initialize(init.One(), force_reinit=True)
        module.beta.initialize(init.Zero(), force_reinit=True)


def count_parameters(module: gluon.Block) -> int:
    """Return how many numbers training can change, each shared tensor counted once."""
    parameters = module.collect_params().values()
    return sum(math.prod(parameter.shape) for parameter in parameters if parameter.grad_req != "null")
