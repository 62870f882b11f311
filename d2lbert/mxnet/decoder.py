"""The decoder half of the Transformer (Vaswani et al. 2017, section 3.1).

This edition decodes a whole known target at once. The cache of the PyTorch edition, which grows with every step, has
no place in a recorded graph.

Shape legend: B batch, L length of the target, M length of the encoder's output (the memory), D hidden size, H heads.
As an argument of ``hybrid_forward``, F is MXNet's module of operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from mxnet import nd
from mxnet.gluon import nn

from d2lbert.mxnet.attention import MultiHeadAttention, Tensor, causal_mask, per_query
from d2lbert.mxnet.blocks import Block
from d2lbert.mxnet.encoder import FeedForward


class TransformerDecoderBlock(Block):
    """Self-attention, attention to the encoder's output, and a feed-forward network, each with residual and LayerNorm.

    Arguments are those of :class:`d2lbert.mxnet.encoder.TransformerEncoderBlock`.
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
        self.cross_attention = MultiHeadAttention(hidden_size, num_heads, attention_dropout)
        self.cross_attention_norm = nn.LayerNorm(epsilon=layer_norm_eps, in_channels=hidden_size)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.feed_forward_norm = nn.LayerNorm(epsilon=layer_norm_eps, in_channels=hidden_size)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the new hidden states (B, L, D) and the attention weights, (B, H, L, L) and (B, H, L, M).

        Args:
            x: (B, L, D).  memory: (B, M, D).
            mask: (B or 1, L, L), which positions each position sees.  memory_mask: (B or 1, 1, M or 1).
        """
        y, weights, cross_weights = super().forward(x, memory, mask, memory_mask)
        return y, weights, cross_weights

    def hybrid_forward(
        self, F: ModuleType, x: Tensor, memory: Tensor, mask: Tensor, memory_mask: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Compute; both masks have three axes."""
        queries = self.attention_norm(x) if self.norm_first else x
        attended, weights = self.attention(queries, queries, queries, mask, True)
        x = x + self.dropout(attended)
        if not self.norm_first:
            x = self.attention_norm(x)

        queries = self.cross_attention_norm(x) if self.norm_first else x
        attended, cross_weights = self.cross_attention(queries, memory, memory, memory_mask, True)
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
        attentions: on request, the weights of every block on the target, each (B, H, L, L).
        cross_attentions: on request, those on the encoder's output, each (B, H, L, M).
    """

    sequence: Tensor
    attentions: tuple[Tensor, ...] | None = None
    cross_attentions: tuple[Tensor, ...] | None = None


class TransformerDecoder(Block):
    """A stack of decoder blocks. Arguments are those of :class:`d2lbert.mxnet.encoder.TransformerEncoder`.

    ``hybridize()`` makes one graph of each block; the loop over the blocks stays Python.
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
        sizes = (hidden_size, num_heads, intermediate_size, activation, dropout, attention_dropout, layer_norm_eps)
        self.blocks = nn.HybridSequential()
        for _ in range(num_layers):
            self.blocks.add(TransformerDecoderBlock(*sizes, norm_first))
        self.norm = nn.LayerNorm(epsilon=layer_norm_eps, in_channels=hidden_size) if final_norm else None

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        output_attentions: bool = False,
    ) -> DecoderOutput:
        """Run x (B, L, D) through every block; each position sees itself and what comes before it.

        Args:
            x: (B, L, D).  memory: (B, M, D), the encoder's output.
            mask: (B, L), 0 for padding of the target.  memory_mask: (B, M), 0 for padding of the source.
        """
        sees = causal_mask(x.shape[1], x.context)  # (1, L, L)
        if mask is not None:
            sees = nd.broadcast_mul(sees, mask.astype("float32").expand_dims(1))  # (B, L, L)
        # A mask that keeps everything, so that calls with and without one share a graph.
        kept = nd.ones((1, 1, 1), ctx=x.context) if memory_mask is None else per_query(memory_mask)
        attentions, cross_attentions = [], []
        for block in self.blocks:
            x, weights, cross_weights = block(x, memory, sees, kept)
            attentions.append(weights)
            cross_attentions.append(cross_weights)
        if self.norm is not None:
            x = self.norm(x)
        if not output_attentions:
            return DecoderOutput(x)
        return DecoderOutput(x, tuple(attentions), tuple(cross_attentions))
