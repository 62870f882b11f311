"""The decoder half of the Transformer (Vaswani et al. 2017, section 3.1).

A decoder works through a target from left to right. It writes down the keys and values of every position in a cache,
so that a new position costs one row of attention and not the whole triangle again.

Shape legend: B batch, L length of what is decoded now, T positions decoded before, M length of the encoder's output
(the memory), D hidden size, H heads, K size of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from d2lbert.torch.attention import MultiHeadAttention, causal_mask
from d2lbert.torch.encoder import FeedForward, KeyValueCache


class BlockCache(KeyValueCache):
    """What a decoder block need not compute again: keys and values of the memory and of earlier positions.

    Args:
        memory_keys, memory_values: (B, H, M, K), of the encoder's output.
    """

    def __init__(self, memory_keys: Tensor, memory_values: Tensor) -> None:
        super().__init__(memory_keys[:, :, :0], memory_values[:, :, :0])  # no position yet
        self.memory_keys, self.memory_values = memory_keys, memory_values

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may come more than once."""
        super().select(rows)
        self.memory_keys = self.memory_keys.index_select(0, rows)
        self.memory_values = self.memory_values.index_select(0, rows)


class TransformerDecoderBlock(nn.Module):
    """Self-attention, attention to the encoder's output, and a feed-forward network, each with residual and LayerNorm.

    Arguments are those of :class:`TransformerEncoderBlock`.
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
        self.cross_attention = MultiHeadAttention(hidden_size, num_heads, attention_dropout)
        self.cross_attention_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def start(self, memory: Tensor) -> BlockCache:
        """Return an empty cache for the encoder's output, (B, M, D)."""
        return BlockCache(*self.cross_attention.project(memory, memory))

    def forward(
        self,
        x: Tensor,
        cache: BlockCache,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the new hidden states (B, L, D) and, on request, the weights (B, H, L, T + L) and (B, H, L, M).

        Args:
            x: (B, L, D), the positions that follow those of the cache.
            cache: from :meth:`start`; it grows by these L positions.
            mask: (B or 1, L, T + L), which positions each of x sees.
            memory_mask: (B, M), True = keep.
        """
        queries = self.attention_norm(x) if self.norm_first else x
        cache.append(*self.attention.project(queries, queries))
        attended, weights = self.attention.attend(queries, cache.keys, cache.values, mask, need_weights)
        x = x + self.dropout(attended)
        if not self.norm_first:
            x = self.attention_norm(x)

        queries = self.cross_attention_norm(x) if self.norm_first else x
        attended, cross_weights = self.cross_attention.attend(
            queries, cache.memory_keys, cache.memory_values, memory_mask, need_weights
        )
        x = x + self.dropout(attended)
        if self.norm_first:
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x))), weights, cross_weights
        x = self.cross_attention_norm(x)
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x))), weights, cross_weights


@dataclass
class DecoderOutput:
    """What a decoder returns.

    Fields:
        sequence: (B, L, D), the last hidden states.
        attentions: on request, the weights of every block on the target, each (B, H, L, T + L).
        cross_attentions: on request, those on the encoder's output, each (B, H, L, M).
    """

    sequence: Tensor
    attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None


class TransformerDecoder(nn.Module):
    """A stack of decoder blocks. Arguments are those of :class:`TransformerEncoder`."""

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
        sizes = (hidden_size, num_heads, intermediate_size, activation, dropout, attention_dropout, layer_norm_eps)
        self.blocks = nn.ModuleList(TransformerDecoderBlock(*sizes, norm_first) for _ in range(num_layers))
        self.norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps) if final_norm else None

    def start(self, memory: Tensor) -> list[BlockCache]:
        """Return an empty cache for every block, given the encoder's output (B, M, D)."""
        return [cast(TransformerDecoderBlock, block).start(memory) for block in self.blocks]

    def forward(
        self,
        x: Tensor,
        caches: Sequence[BlockCache],
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> DecoderOutput:
        """Run x (B, L, D) through every block; each position sees itself and what comes before it.

        Args:
            x: (B, L, D), the positions that follow those of the caches.
            caches: from :meth:`start`; they grow by these L positions.
            mask: (B, T + L), False for padding of the target.  memory_mask: (B, M), False for padding of the source.
        """
        end = caches[0].keys.shape[2] + x.shape[1]  # T + L
        sees = causal_mask(end, x.device)[:, end - x.shape[1] :]  # (1, L, T + L)
        if mask is not None:
            sees = sees & mask.unsqueeze(1)  # (B, L, T + L)
        attentions, cross_attentions = [], []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, weights, cross_weights = block(x, cache, sees, memory_mask, output_attentions)
            attentions.append(weights)
            cross_attentions.append(cross_weights)
        if self.norm is not None:
            x = self.norm(x)
        if not output_attentions:
            return DecoderOutput(x)
        return DecoderOutput(x, tuple(attentions), tuple(cross_attentions))
