"""The decoder half of the Transformer (Vaswani et al. 2017, section 3.1).

This edition decodes a whole known target at once. The cache of the PyTorch edition, which grows with every step, has
no place in a recorded graph.

Shape legend: B batch, L length of the target, M length of the encoder's output (the memory), D hidden size, H heads.
As an argument of ``hybrid_forward``, F is MXNet's module of operations.
"""

from __future__ import annotations

from types import ModuleType

from mxnet import nd
from mxnet.gluon import nn

from d2lbert.config.base import BlockSizes
from d2lbert.mxnet.attention import MultiHeadAttention, Tensor, always_a_mask, causal_mask
from d2lbert.mxnet.blocks import Block
from d2lbert.mxnet.encoder import FeedForward
from d2lbert.outputs import DecoderOutput


class TransformerDecoderBlock(Block):
    """Self-attention, attention to the encoder's output, and a feed-forward network (post-LN).

    x = LayerNorm(x + MultiHead(x, x, x)), x = LayerNorm(x + MultiHead(x, m, m)) with the memory m, and
    x = LayerNorm(x + FFN(x)).
    """

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(sizes.hidden_size, sizes.num_heads, sizes.attention_dropout)
        self.attention_norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.cross_attention = MultiHeadAttention(sizes.hidden_size, sizes.num_heads, sizes.attention_dropout)
        self.cross_attention_norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.feed_forward = FeedForward(sizes.hidden_size, sizes.intermediate_size, sizes.activation)
        self.feed_forward_norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the new hidden states (B, L, D) and, on request, the weights (B, H, L, L) and (B, H, L, M).

        Args:
            x: (B, L, D).  memory: (B, M, D), the encoder's output.
            mask: (B or 1, L, L), which positions each of x sees.  memory_mask: (B, M), 1 = keep.
        """
        masks = always_a_mask(mask, x), always_a_mask(memory_mask, x)
        y, weights, cross_weights = super().forward(x, memory, *masks)
        return (y, weights, cross_weights) if need_weights else (y, None, None)

    def hybrid_forward(
        self, F: ModuleType, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute; both masks have three axes."""
        attended, weights = self.attention(x, x, x, mask, True)  # (B, L, D), (B, H, L, L)
        x = self.attention_norm(x + self.dropout(attended))
        attended, cross_weights = self.cross_attention(x, memory, memory, memory_mask, True)  # (B, L, D), (B, H, L, M)
        x = self.cross_attention_norm(x + self.dropout(attended))
        x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights, cross_weights


class PreNormDecoderBlock(TransformerDecoderBlock):
    """The same with LayerNorm before each of the three (pre-LN)."""

    def hybrid_forward(
        self, F: ModuleType, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute; both masks have three axes."""
        queries = self.attention_norm(x)
        attended, weights = self.attention(queries, queries, queries, mask, True)
        x = x + self.dropout(attended)
        attended, cross_weights = self.cross_attention(self.cross_attention_norm(x), memory, memory, memory_mask, True)
        x = x + self.dropout(attended)
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x, weights, cross_weights


class TransformerDecoder(Block):
    """A stack of decoder blocks.

    ``hybridize()`` makes one graph of each block; the loop over the blocks stays Python.

    Args:
        sizes: of every block.
        num_layers: how many blocks.
    """

    def __init__(self, sizes: BlockSizes, num_layers: int) -> None:
        super().__init__()
        block = PreNormDecoderBlock if sizes.norm_first else TransformerDecoderBlock
        self.blocks = nn.HybridSequential()
        for _ in range(num_layers):
            self.blocks.add(block(sizes))
        # A pre-LN stack ends in a sum of everything before; it wants one LayerNorm more.
        norm = nn.LayerNorm(epsilon=sizes.layer_norm_eps, in_channels=sizes.hidden_size)
        self.norm = norm if sizes.norm_first else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> DecoderOutput[Tensor]:
        """Run x (B, L, D) through every block; each position sees itself and what comes before it.

        Args:
            x: (B, L, D).  memory: (B, M, D), the encoder's output.
            mask: (B, L), 0 for padding of the target.  memory_mask: (B, M), 0 for padding of the source.
        """
        sees = causal_mask(x.shape[1], x.context)  # (1, L, L)
        if mask is not None:
            sees = nd.broadcast_mul(sees, mask.astype("float32").expand_dims(1))  # (B, L, L)
        attentions, cross_attentions = [], []
        for block in self.blocks:
            x, weights, cross_weights = block(x, memory, sees, memory_mask, output_attentions)
            attentions.append(weights)
            cross_attentions.append(cross_weights)
        if not output_attentions:
            return DecoderOutput(self._normed(x))
        return DecoderOutput(self._normed(x), tuple(attentions), tuple(cross_attentions))

    def _normed(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)
