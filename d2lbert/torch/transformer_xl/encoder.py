"""Transformer-XL (Dai et al. 2019) and XLNet (Yang et al. 2019): a memory of what came before, and any order.

A long text is read in segments. The states of the segments before are kept, without gradients, and looked at like
tokens of the text (Transformer-XL, section 3.2). What stands in the memory has no number in the new segment, so that
attention asks how far away a token is, not where it stands (section 3.3).

XLNet has the same layers. Its tokens are predicted one after the other in an order that is drawn anew for each text:
a token may look at those that are earlier in this order, on either side of it. A second stream of states, of queries,
knows the place of a token and not the token (XLNet, section 2.3).

Shape legend: B batch, L length of the segment, T tokens of memory, D hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from d2lbert.config.base import BlockSizes
from d2lbert.torch.encoder import FeedForward
from d2lbert.torch.transformer_xl.attention import RelativeAttention


class RelativeBlock(nn.Module):
    """Relative attention and a feed-forward network, each with LayerNorm after its residual connection (post-LN)."""

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__()
        self.attention = RelativeAttention(sizes.hidden_size, sizes.num_heads, sizes.attention_dropout)
        self.attention_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.feed_forward = FeedForward(sizes.hidden_size, sizes.intermediate_size, sizes.activation)
        self.feed_forward_norm = nn.LayerNorm(sizes.hidden_size, eps=sizes.layer_norm_eps)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x: Tensor, seen: Tensor, sees: Tensor | None = None) -> Tensor:
        """Return the new states (B, L, D); the arguments are those of :meth:`RelativeAttention.forward`."""
        x = self.attention_norm(x + self.dropout(self.attention(x, seen, sees)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


@dataclass
class SegmentOutput:
    """What a stack makes of a segment.

    Fields:
        sequence: (B, L, D), the last states.
        queries: (B, L, D), the last states of the queries, where there were any.
        inputs: the input (B, L, D) of every block: what a memory keeps.
    """

    sequence: Tensor
    queries: Tensor | None
    inputs: list[Tensor]


class RelativeEncoder(nn.Module):
    """A stack of relative blocks that remembers segments. Vectors in, vectors out: the caller does the embedding.

    Args:
        sizes: of every block; ``norm_first`` must be False.
        num_layers: how many blocks.
    """

    def __init__(self, sizes: BlockSizes, num_layers: int) -> None:
        super().__init__()
        if sizes.norm_first:
            raise ValueError("the blocks of Transformer-XL and of XLNet have LayerNorm after each part, not before")
        self.blocks = nn.ModuleList(RelativeBlock(sizes) for _ in range(num_layers))

    def forward(
        self,
        x: Tensor,
        sees: Tensor | None = None,
        memories: Sequence[Tensor] | None = None,
        queries: Tensor | None = None,
        queries_see: Tensor | None = None,
    ) -> SegmentOutput:
        """Read a segment.

        Args:
            x: (B, L, D).
            sees: (L, L) or (B, L, L), True = look at it. The memory is always seen.
            memories: (B, T, D) for each block, see :func:`remember`.
            queries: (B, L, D), states that look at the same tokens and that nothing looks at (XLNet's second stream).
            queries_see: what they look at, like ``sees``.
        """
        inputs = []
        for number, block in enumerate(self.blocks):
            inputs.append(x)
            seen = x if memories is None else torch.cat([memories[number], x], dim=1)
            before = seen.shape[1] - x.shape[1]
            if queries is not None:
                queries = block(queries, seen, _with_memory(queries_see, before))
            x = block(x, seen, _with_memory(sees, before))
        return SegmentOutput(x, queries, inputs)


def _with_memory(sees: Tensor | None, before: int) -> Tensor | None:
    """Let everyone see so many tokens of memory: (..., L, L) -> (..., L, T + L)."""
    if sees is None or not before:
        return sees
    return torch.cat([sees.new_ones(*sees.shape[:-1], before), sees], dim=-1)


def remember(inputs: Sequence[Tensor], length: int, memories: Sequence[Tensor] | None = None) -> list[Tensor]:
    """Return the last T tokens of what each block has seen, for the next segment; no gradient goes back through them.

    Args:
        inputs: (B, L, D) for each block, of the segment that was read.
        length: T, the most tokens to keep.
        memories: what was remembered before it.
    """
    seen = inputs if memories is None else [torch.cat(pair, dim=1) for pair in zip(memories, inputs, strict=True)]
    return [one[:, max(0, one.shape[1] - length) :].detach() for one in seen]


def order_masks(order: Sequence[int], device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Return what tokens and what queries see, each (L, L), where places are predicted in such an order.

    A token sees itself and those that are earlier in the order; a query sees only those (XLNet, figure 1).

    Args:
        order: the places 0 to L - 1, the first to be predicted first.

    Raises:
        ValueError: it is not an order of the places.
    """
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"{list(order)} is no order of the places 0 to {len(order) - 1}")
    turn = torch.empty(len(order), dtype=torch.long, device=device)
    turn[torch.tensor(list(order), device=device)] = torch.arange(len(order), device=device)
    return turn.unsqueeze(1) >= turn, turn.unsqueeze(1) > turn
