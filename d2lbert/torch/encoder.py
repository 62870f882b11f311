"""The encoder half of the Transformer (Vaswani et al. 2017), the part that BERT is made of.

The decoder half is in ``decoder.py``, the whole model in ``transformer.py``.

Shape legend: B batch, L length, D hidden size, H heads, F width inside the feed-forward network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.torch.attention import MultiHeadAttention

# BERT's paper and checkpoints use the exact GELU, x Phi(x) with the error function; GPT-2 uses the tanh formula.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
}
_IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "gelu": torch.ops.aten.gelu_,
    "gelu_new": partial(torch.ops.aten.gelu_, approximate="tanh"),
}


class SinusoidalPositions(nn.Module):
    """Add fixed waves to the embeddings, so that order matters (Vaswani et al. 2017, section 3.5).

    P[i, 2j] = sin(i / 10000^(2j / D)) and P[i, 2j + 1] = cos(i / 10000^(2j / D)): column pair j turns with a
    wavelength of 2 pi 10000^(2j / D) positions.
    """

    table: Tensor

    def __init__(self, hidden_size: int, max_length: int = 1000, dropout: float = 0.0) -> None:
        super().__init__()
        positions = torch.arange(max_length, dtype=torch.float32).unsqueeze(1)  # (max_length, 1)
        exponents = torch.arange(0, hidden_size, 2, dtype=torch.float32) / hidden_size  # 2j / D
        angles = positions / 10000**exponents  # (max_length, ceil(D / 2))
        table = torch.zeros(max_length, hidden_size)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles[:, : hidden_size // 2].cos()
        # Computed, not learned: it follows the module to its device and stays out of checkpoints.
        self.register_buffer("table", table, persistent=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        """Add L positions to x (B, L, D), from position ``first`` on."""
        end = first + x.shape[1]
        if end > len(self.table):
            raise ValueError(f"input of length {end} is longer than the table of {len(self.table)} positions")
        return self.dropout(x + self.table[first:end])


class FeedForward(nn.Module):
    """The position-wise network (Vaswani et al. 2017, section 3.3): expand to F, activate, project back to D.

    The same two layers act on every position by themselves, so they are two convolutions of width one.
    """

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str = "relu") -> None:
        super().__init__()
        self.expand = nn.Linear(hidden_size, intermediate_size)
        self.project = nn.Linear(intermediate_size, hidden_size)
        self.activation = ACTIVATIONS[activation]
        self.activation_in_place = _IN_PLACE[activation]

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, L, D) to (B, L, D)."""
        hidden = self.expand(x)  # (B, L, F)
        if torch.is_grad_enabled():
            return self.project(self.activation(hidden))
        # Without a gradient nobody needs the input of the activation again: writing over it saves the largest
        # array of the block, which is 5 % of the time of BERT-base.
        return self.project(self.activation_in_place(hidden))


class KeyValueCache:
    """Keys and values of the positions that a block has read, so that it need not compute them again.

    Args:
        keys, values: (B, H, T, K), of the positions read so far.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Add keys and values (B, H, L, K) of L more positions."""
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, values], dim=2)

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may come more than once."""
        self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)


class TransformerEncoderBlock(nn.Module):
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
        self.attention_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def start(self, batch: Tensor) -> KeyValueCache:
        """Return a cache that holds nothing yet, for rows like those of x (B, L, D)."""
        return KeyValueCache(*self.attention.project(batch[:, :0], batch[:, :0]))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        positions: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the new hidden states (B, L, D) and, on request, the attention weights (B, H, L, T + L).

        Args:
            x: (B, L, D).  mask: (B, T + L) or (B, L, T + L), True = keep.
            positions: (B, S), compute the new states of these positions alone, (B, S, D). They still attend to all
                of x; what the others would have become is never computed.
            cache: T positions before x, which x attends to as well; it grows by those of x. Without one, T is 0.
        """
        memory = self.attention_norm(x) if self.norm_first else x
        queries = memory
        if positions is not None:
            x, queries = _pick(x, positions), _pick(memory, positions)
            mask = _pick(mask, positions) if mask is not None and mask.dim() == 3 else mask
        keys, values = self.attention.project(memory, memory)
        if cache is not None:
            cache.append(keys, values)
            keys, values = cache.keys, cache.values
        attended, weights = self.attention.attend(queries, keys, values, mask, need_weights)
        x = x + self.dropout(attended)
        if self.norm_first:
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), weights
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x))), weights


def _pick(x: Tensor, positions: Tensor) -> Tensor:
    """Pick rows of a (B, L, E) array at positions (B, S): (B, S, E)."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))


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


class TransformerEncoder(nn.Module):
    """A stack of encoder blocks. Vectors in, vectors out: embeddings are the caller's.

    Args:
        num_layers: how many times the vectors pass through a block.
        num_groups: how many blocks there are; one for each layer by default. With fewer, each serves as many layers
            that follow each other (Lan et al. 2020, section 3.1); it must divide ``num_layers``.
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
        num_groups: int | None = None,
    ) -> None:
        super().__init__()
        self.num_layers = num_layers
        self.blocks = nn.ModuleList(
            TransformerEncoderBlock(
                hidden_size,
                num_heads,
                intermediate_size,
                activation,
                dropout,
                attention_dropout,
                layer_norm_eps,
                norm_first,
            )
            for _ in range(num_layers if num_groups is None else num_groups)
        )
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps) if final_norm else None

    def start(self, batch: Tensor) -> list[KeyValueCache]:
        """Return an empty cache for every block, for rows like those of x (B, L, D)."""
        return [block.start(batch) for block in self._layers()]

    def _layers(self) -> list[TransformerEncoderBlock]:
        """Return the block of each layer: its own, or that of its group."""
        share = self.num_layers // max(1, len(self.blocks))
        return [cast(TransformerEncoderBlock, self.blocks[number // share]) for number in range(self.num_layers)]

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        positions: Tensor | None = None,
        caches: Sequence[KeyValueCache] | None = None,
    ) -> EncoderOutput:
        """Run x (B, L, D) through every block.

        Args:
            x: (B, L, D).  mask: (B, T + L) or (B, L, T + L), True = keep.
            positions: (B, S), where only these positions of the last block are wanted; ``sequence`` is then (B, S, D).
            caches: from :meth:`start`, T positions that stand before x; they grow by those of x. Without them T is 0.
        """
        hidden_states, attentions = [x], []
        for number, block in enumerate(self._layers(), start=1):
            last = number == self.num_layers
            cache = None if caches is None else caches[number - 1]
            x, weights = block(x, mask, output_attentions, positions if last else None, cache)
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


def initialize(module: nn.Module, standard_deviation: float) -> None:
    """Give linear layers and embeddings normal weights, zero biases; LayerNorm starts as the identity.

    Apply it with ``model.apply``; the standard deviation is 0.02 in BERT.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=standard_deviation)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LayerNorm):
        nn.init.ones_(module.weight)
        nn.init.zeros_(module.bias)


def count_parameters(module: nn.Module) -> int:
    """Return how many numbers training can change, each shared tensor counted once."""
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
