"""Attention that asks for distances (Dai et al. 2019, section 3.3).

Shape legend: B batch, L length of the segment, T tokens of memory, M = T + L tokens to look at, R distances,
D hidden size, H heads, K size of a head.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from d2lbert.torch.attention import join_heads, masked_softmax, split_heads


def distance_waves(distances: Tensor, hidden_size: int) -> Tensor:
    """Return the encoding (..., D) of distances (...): D / 2 sines, then D / 2 cosines of the same angles.

    The frequencies are those of the 2017 Transformer (Vaswani et al. 2017, section 3.5); a distance may be negative.
    """
    exponents = torch.arange(0, hidden_size, 2, device=distances.device) / hidden_size
    angles = distances.unsqueeze(-1) / 10000**exponents  # (..., D / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class RelativeAttention(nn.Module):
    """Multi-head attention whose scores ask for a token's content and its distance (Dai et al. 2019, section 3.3).

    score(i, j) = ((q_i + u) . k_j + (q_i + v) . r_(i - j)) / sqrt(K), where r is a linear map of the encoding of the
    distance, and u and v are learned, a vector of each for every head. No projection has a bias.

    Args:
        hidden_size: D, even; ``num_heads`` must divide it.
        num_heads: H.
        dropout: rate of dropout on the weights.
    """

    def __init__(self, hidden_size: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if hidden_size % num_heads or hidden_size % 2:
            raise ValueError(f"a hidden size of {hidden_size} is odd, or {num_heads} heads do not divide it")
        self.num_heads = num_heads
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, hidden_size, bias=False)
        self.value = nn.Linear(hidden_size, hidden_size, bias=False)
        self.distance = nn.Linear(hidden_size, hidden_size, bias=False)
        self.output = nn.Linear(hidden_size, hidden_size, bias=False)
        self.content_bias = nn.Parameter(torch.zeros(num_heads, 1, hidden_size // num_heads))  # u
        self.distance_bias = nn.Parameter(torch.zeros(num_heads, 1, hidden_size // num_heads))  # v
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, seen: Tensor, sees: Tensor | None = None) -> Tensor:
        """Mix what is seen, for every place of a segment.

        Args:
            x: (B, L, D), who asks.
            seen: (B, M, D), the memory and then the L places of the segment.
            sees: (L, M) or (B, L, M), True = look at it; all by default. Who sees nothing gets zeros.

        Returns:
            (B, L, D).
        """
        projected = self.query(x), self.key(seen), self.value(seen)
        q, k, v = (split_heads(one, self.num_heads) for one in projected)  # (B, H, L, K), twice (B, H, M, K)
        by_content = (q + self.content_bias) @ k.transpose(2, 3)  # (B, H, L, M)
        scores = by_content + self._by_distance(q + self.distance_bias, seen.shape[1])
        kept = sees if sees is None or sees.dim() == 2 else sees.unsqueeze(1)
        weights = masked_softmax(scores / math.sqrt(q.shape[-1]), kept)  # (B, H, L, M)
        return self.output(join_heads(self.dropout(weights) @ v))

    def _by_distance(self, q: Tensor, total: int) -> Tensor:
        """Return the scores (B, H, L, M) of queries (B, H, L, K) by distance alone.

        A distance stands at many places, so each is scored once, from the largest to the smallest, and then put there.
        """
        length, width = q.shape[2], q.shape[1] * q.shape[3]
        distances = torch.arange(total - 1, -length, -1, device=q.device)  # (R,), R = M + L - 1
        waves = distance_waves(distances, width).to(q.dtype).unsqueeze(0)  # (1, R, D)
        scores = q @ split_heads(self.distance(waves), self.num_heads).transpose(2, 3)  # (B, H, L, R)
        # Query i stands at place T + i, so j is T + i - j away, which has the number (M - 1) - (T + i - j).
        rows = torch.arange(length - 1, -1, -1, device=q.device).unsqueeze(1)
        numbers = rows + torch.arange(total, device=q.device)  # (L, M)
        return scores.gather(3, numbers.expand(*scores.shape[:2], -1, -1))
