"""The encoder half of the Transformer (Vaswani et al. 2017), the part that BERT is made of.

The decoder half is in ``decoder.py``, the whole model in ``transformer.py``.

Shape legend: B batch, L length, D hidden size, H heads, F width inside the feed-forward network. As an argument of
``hybrid_forward``, F is MXNet's module of operations instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
from mxnet import gluon, init, nd
from mxnet.gluon import nn

from d2lbert.config.base import BlockSizes
from d2lbert.mxnet.attention import MultiHeadAttention, Tensor, always_a_mask
from d2lbert.mxnet.blocks import Block, is_array, operations
from d2lbert.outputs import EncoderOutput


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
    """Attention and a feed-forward network, each in a residual connection with LayerNorm after it (post-LN).

    x = LayerNorm(x + MultiHead(x, x, x)), then x = LayerNorm(x + FFN(x)), as in the 2017 paper (section 3.1) and in
    BERT. Dropout acts on the output of each of the two, before it is added.
    """

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(sizes.hidden_size, sizes.num_heads, sizes.attention_dropout)
        self.attention_norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.feed_forward = FeedForward(sizes.hidden_size, sizes.intermediate_size, sizes.activation)
        self.feed_forward_norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, need_weights: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new hidden states (B, L, D) and, on request, the attention weights (B, H, L, M).

        Args:
            x: (B, L, D).  mask: (B, M) or (B, L, M), 1 = keep.
            memory: (B, M, D), what x attends to; x itself by default.
        """
        y, weights = super().forward(x, x if memory is None else memory, always_a_mask(mask, x))
        return y, weights if need_weights else None

    def hybrid_forward(self, F: ModuleType, x: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the new states of x (B, L, D), which attends to memory (B, M, D); the mask has three axes."""
        attended, weights = self.attention(x, memory, memory, mask, True)  # (B, L, D), (B, H, L, M)
        x = self.attention_norm(x + self.dropout(attended))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights


class PreNormEncoderBlock(TransformerEncoderBlock):
    """The same with LayerNorm before each of the two (pre-LN), as in GPT-2; what is added stays as it is.

    x = x + MultiHead(n, n, n) with n = LayerNorm(x), then x = x + FFN(LayerNorm(x)) (Xiong et al. 2020).
    """

    def hybrid_forward(self, F: ModuleType, x: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Compute the new states of x (B, L, D), which attends to memory (B, M, D); the mask has three axes."""
        memory = self.attention_norm(memory)
        attended, weights = self.attention(self.attention_norm(x), memory, memory, mask, True)
        x = x + self.dropout(attended)
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, weights


class TransformerEncoder(Block):
    """A stack of encoder blocks. Vectors in, vectors out: embeddings are the caller's.

    ``hybridize()`` makes one graph of each block; the loop over the blocks stays Python.

    Args:
        sizes: of every block.
        num_layers: how many blocks.
    """

    def __init__(self, sizes: BlockSizes, num_layers: int) -> None:
        super().__init__()
        block = PreNormEncoderBlock if sizes.norm_first else TransformerEncoderBlock
        self.blocks = nn.HybridSequential()
        for _ in range(num_layers):
            self.blocks.add(block(sizes))
        # A pre-LN stack ends in a sum of everything before; it wants one LayerNorm more.
        norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.norm = norm if sizes.norm_first else None

    def layers(self) -> list[TransformerEncoderBlock]:
        """Return the blocks in the order in which the vectors pass through them."""
        return list(self.blocks)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncoderOutput[Tensor]:
        """Run x (B, L, D) through every block; ``mask`` is (B, L) or (B, L, L), 1 = keep."""
        hidden_states, attentions = [x], []
        for block in self.layers():
            x, weights = block(x, mask, output_attentions)
            if output_hidden_states:
                hidden_states.append(x)
            attentions.append(weights)
        return EncoderOutput(
            self._normed(x),
            tuple(hidden_states) if output_hidden_states else None,
            tuple(attentions) if output_attentions else None,
        )

    def _normed(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)

    def forward_at(self, x: Tensor, mask: Tensor | None, positions: Tensor) -> Tensor:
        """Return the last hidden states of some positions alone, (B, S, D); the last block is computed for no others.

        Args:
            x, mask: as for :meth:`forward`.
            positions: (B, S), columns of each row.
        """
        *blocks, last = self.layers()
        for block in blocks:
            x, _ = block(x, mask)
        if mask is not None and mask.ndim == 3:
            mask = select_positions(mask, positions)  # (B, S, L)
        x, _ = last(select_positions(x, positions), mask, memory=x)
        return self._normed(x)


def select_positions(x: Tensor, positions: Tensor) -> Tensor:
    """Return rows of a (B, L, E) array at positions (B, S): (B, S, E)."""
    rows = nd.arange(len(positions), ctx=x.context).expand_dims(1).broadcast_like(positions)  # (B, S)
    return nd.gather_nd(x, nd.stack(rows, positions.astype("float32"), axis=0))


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
