"""The decoder half of the Transformer (Vaswani et al. 2017, section 3.1).

A decoder works through a target from left to right. It keeps the keys and values of every position in a cache, so that
a new position costs one row of attention instead of the whole triangle.

Shape legend: B batch, L length of what is decoded now, T positions decoded before, M length of the encoder's output
(the memory), D hidden size, H heads, K size of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from d2lbert.config.base import BlockSizes
from d2lbert.outputs import DecoderOutput
from d2lbert.torch.attention import KeyValueCache, MultiHeadAttention, causal_mask
from d2lbert.torch.encoder import FeedForward


class BlockCache(KeyValueCache):
    """What a decoder block need not compute again: keys and values of the memory and of earlier positions.

    Args:
        memory_keys, memory_values: (B, H, M, K), of the encoder's output.
    """

    def __init__(self, memory_keys: Tensor, memory_values: Tensor) -> None:
        super().__init__(memory_keys[:, :, :0], memory_values[:, :, :0])  # no position yet
        self.memory_keys, self.memory_values = memory_keys, memory_values

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may be repeated."""
        super().select(rows)
        self.memory_keys = self.memory_keys.index_select(0, rows)
        self.memory_values = self.memory_values.index_select(0, rows)


class TransformerDecoderBlock(nn.Module):
    """Self-attention, attention to the encoder's output, and a feed-forward network (post-LN).

    x = LayerNorm(x + MultiHead(x, x, x)), x = LayerNorm(x + MultiHead(x, m, m)) with the memory m, and
    x = LayerNorm(x + FFN(x)).
    """

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(sizes.hidden_size, sizes.num_heads, sizes.attention_dropout)
        self.attention_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.cross_attention = MultiHeadAttention(sizes.hidden_size, sizes.num_heads, sizes.attention_dropout)
        self.cross_attention_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.feed_forward = FeedForward(sizes.hidden_size, sizes.intermediate_size, sizes.activation)
        self.feed_forward_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.dropout = nn.Dropout(sizes.dropout)

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
            mask: (B or 1, L, T + L), True where a position of x may attend.
            memory_mask: (B, M), True = keep.
        """
        attended, weights = self.attention(x, x, x, mask, need_weights, cache)  # (B, L, D), (B, H, L, T + L)
        x = self.attention_norm(x + self.dropout(attended))
        attended, cross_weights = self.cross_attention.attend(
            x, cache.memory_keys, cache.memory_values, memory_mask, need_weights
        )  # (B, L, D), (B, H, L, M)
        x = self.cross_attention_norm(x + self.dropout(attended))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights, cross_weights


class PreNormDecoderBlock(TransformerDecoderBlock):
    """The same block with LayerNorm before each of the three parts (pre-LN)."""

    def forward(
        self,
        x: Tensor,
        cache: BlockCache,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the new hidden states and the weights; the arguments are those of the post-LN block."""
        queries = self.attention_norm(x)
        attended, weights = self.attention(queries, queries, queries, mask, need_weights, cache)
        x = x + self.dropout(attended)
        attended, cross_weights = self.cross_attention.attend(
            self.cross_attention_norm(x), cache.memory_keys, cache.memory_values, memory_mask, need_weights
        )
        x = x + self.dropout(attended)
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, weights, cross_weights


class TransformerDecoder(nn.Module):
    """A stack of decoder blocks.

    Args:
        sizes: of every block.
        num_layers: how many blocks.
    """

    def __init__(self, sizes: BlockSizes, num_layers: int) -> None:
        super().__init__()
        block = PreNormDecoderBlock if sizes.norm_first else TransformerDecoderBlock
        self.blocks = nn.ModuleList(block(sizes) for _ in range(num_layers))
        # A pre-LN stack ends in a sum that is not normalised, so it needs one more LayerNorm.
        self.norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps) if sizes.norm_first else nn.Identity()

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
    ) -> DecoderOutput[Tensor]:
        """Run x (B, L, D) through every block; each position attends to itself and to those before it.

        Args:
            x: (B, L, D), the positions that follow those of the caches.
            caches: from :meth:`start`; they grow by these L positions.
            mask: (B, T + L), False for padding of the target.  memory_mask: (B, M), False for padding of the source.
        """
        end = caches[0].keys.shape[2] + x.shape[1]  # T + L
        visible = causal_mask(end, x.device)[:, end - x.shape[1] :]  # (1, L, T + L)
        if mask is not None:
            visible = visible & mask.unsqueeze(1)  # (B, L, T + L)
        attentions, cross_attentions = [], []
        for block, cache in zip(self.blocks, caches, strict=True):
            x, weights, cross_weights = block(x, cache, visible, memory_mask, output_attentions)
            attentions.append(weights)
            cross_attentions.append(cross_weights)
        if not output_attentions:
            return DecoderOutput(self.norm(x))
        return DecoderOutput(self.norm(x), tuple(attentions), tuple(cross_attentions))
