"""Attention: masked softmax, additive and dot-product scores, multi-head attention.

Shape legend: B batch, L length of the queries, M length of the memory (keys and values), D hidden size, H heads,
K size of a head. In every mask, True means keep.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis, with weight zero wherever ``mask`` is False.

    A row that keeps nothing gets weight zero everywhere. Filling with minus infinity, the usual recipe, would make such
    a row NaN, together with the gradients of its scores or values.

    Args:
        scores: (..., M), real numbers.
        mask: boolean, broadcastable to ``scores``.

    Returns:
        Weights (..., M): non-negative, each row sums to one, or to zero where nothing is kept.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, lowest).softmax(dim=-1) * mask


class AdditiveAttention(nn.Module):
    """Attention with a one-layer network as its score (Bahdanau et al. 2015, appendix A.1.2).

    score(q, k) = v . tanh(W_q q + W_k k). Queries and keys may have different sizes.
    """

    def __init__(self, query_size: int, key_size: int, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, hidden_size, bias=False)
        self.key = nn.Linear(key_size, hidden_size, bias=False)
        self.score = nn.Linear(hidden_size, 1, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mixed values (B, L, Dv) and the weights (B, L, M).

        Args:
            queries: (B, L, Dq).  keys: (B, M, Dk).  values: (B, M, Dv).  mask: (B, M) or (B, L, M).
        """
        return self.attend(queries, self.key(keys), values, mask)

    def attend(
        self, queries: Tensor, projected_keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Do the same with keys projected beforehand, W_k k (B, M, hidden): a decoder reuses them at every step."""
        hidden = torch.tanh(self.query(queries).unsqueeze(2) + projected_keys.unsqueeze(1))  # (B, L, M, hidden)
        weights = masked_softmax(self.score(hidden).squeeze(-1), per_query(mask))  # (B, L, M)
        return self.dropout(weights) @ values, weights


class DotProductAttention(nn.Module):
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(Q K^T / sqrt(d)) V.

    Without the scale the variance of a score grows with the size d, and the softmax of large scores has almost no
    gradient. The module has no parameters.
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mixed values (..., L, Dv) and the weights (..., L, M).

        Args:
            queries: (..., L, d).  keys: (..., M, d).  values: (..., M, Dv).
            mask: (B, M) or (B, L, M) for three-dimensional input, else broadcastable to (..., L, M).
        """
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])  # (..., L, M)
        weights = masked_softmax(scores, per_query(mask))
        return self.dropout(weights) @ values, weights


class KeyValueCache:
    """Keys and values of the positions read so far, so that attention need not compute them again.

    Args:
        keys, values: (B, H, T, K), of the T positions read so far.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values (B, H, L, K) of L more positions; return all of them, (B, H, T + L, K) each."""
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, values], dim=2)
        return self.keys, self.values

    def select(self, rows: Tensor) -> None:
        """Keep some rows of the batch, in a new order; a row may be repeated."""
        self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2): H attentions side by side, each of size K = D / H.

    Differs from the paper in that the projections have biases, as in BERT; ``bias=False`` gives the paper's.

    Args:
        hidden_size: D, the size of queries and of the output; ``num_heads`` must divide it, unless K is given.
        num_heads: H.
        dropout: rate of dropout on the attention weights.
        bias: whether the four projections have a bias.
        key_size, value_size: sizes of the keys and values that come in; D by default.
        head_size: K; D / H by default.

    Raises:
        ValueError: ``num_heads`` does not divide ``hidden_size``, and there is no ``head_size``.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        key_size: int | None = None,
        value_size: int | None = None,
        head_size: int | None = None,
    ) -> None:
        super().__init__()
        if head_size is None and hidden_size % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide hidden_size {hidden_size}")
        self.num_heads = num_heads
        inner = num_heads * (head_size or hidden_size // num_heads)  # H K
        self.query = nn.Linear(hidden_size, inner, bias=bias)
        self.key = nn.Linear(key_size or hidden_size, inner, bias=bias)
        self.value = nn.Linear(value_size or hidden_size, inner, bias=bias)
        self.output = nn.Linear(inner, hidden_size, bias=bias)
        self.attention = DotProductAttention(dropout)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, L, D) and, on request, the weights (B, H, L, M).

        Without weights the fused kernel of PyTorch computes the same numbers without ever storing the (B, H, L, M)
        matrix of scores.

        Args:
            queries: (B, L, D).  keys: (B, M, Dk).  values: (B, M, Dv).  mask: (B, M) or (B, L, M), True = keep.
            cache: T positions that precede those of the memory and are attended to as well; it grows by the M new
                ones. The mask and the weights then have T + M columns.
        """
        k, v = self.project(keys, values)  # (B, H, M, K) each
        if cache is not None:
            k, v = cache.append(k, v)  # (B, H, T + M, K) each
        return self.attend(queries, k, v, mask, need_weights)

    def empty_cache(self, x: Tensor) -> KeyValueCache:
        """Return a cache without positions, for as many rows as x (B, L, D) has."""
        return KeyValueCache(*self.project(x[:, :0], x[:, :0]))

    def project(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values split into heads, each (B, H, M, K). A decoder keeps them between its steps."""
        return split_heads(self.key(keys), self.num_heads), split_heads(self.value(values), self.num_heads)

    def attend(
        self, queries: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Do the rest of :meth:`forward`, with k and v (B, H, M, K) from :meth:`project`."""
        q = split_heads(self.query(queries), self.num_heads)  # (B, H, L, K)
        mask = per_query(mask)
        if mask is not None:
            mask = mask.unsqueeze(1)  # (B, 1, 1 or L, M): the same for every head
        weights = None
        if need_weights:
            mixed, weights = self.attention(q, k, v, mask)  # (B, H, L, K), (B, H, L, M)
        else:
            mixed = fused_attention(q, k, v, mask, self.attention.dropout.p if self.training else 0.0)
        return self.output(join_heads(mixed)), weights  # (B, L, D), (B, H, L, M)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Return what :class:`DotProductAttention` mixes, (B, H, L, K), by PyTorch's kernel, which stores no scores.

    Where a CPU trains in bfloat16 without this dropout, the kernel computes in float32, and keeps copies of q, k and v
    for that. In bfloat16 its way back takes up to several times as long, for it prepares each of many small products
    anew; long rows with wide heads lose a little (``benchmarks/attention/bfloat16.py``).

    Args:
        q: (B, H, L, K).  k, v: (B, H, M, K).  mask: broadcastable to (B, H, L, M), True = keep.
        dropout: rate of dropout on the attention weights.
    """
    trained = any(x.requires_grad for x in (q, k, v))
    if trained and q.dtype == torch.bfloat16 and q.device.type == "cpu" and not dropout:
        with torch.autocast("cpu", enabled=False):
            exact = functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), attn_mask=mask)
        return exact.to(q.dtype)
    return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the last axis into heads: (B, L, H K) -> (B, H, L, K)."""
    batch, length, size = x.shape
    return x.view(batch, length, num_heads, size // num_heads).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """Undo :func:`split_heads`: (B, H, L, K) -> (B, L, H K)."""
    batch, heads, length, size = x.shape
    return x.transpose(1, 2).reshape(batch, length, heads * size)


def per_query(mask: Tensor | None) -> Tensor | None:
    """Give a mask of the memory (B, M) an axis for the queries, (B, 1, M); return a mask that has one unchanged."""
    return mask.unsqueeze(1) if mask is not None and mask.dim() == 2 else mask


def same_sequence(sequence_ids: Tensor) -> Tensor:
    """Return the (B, L, L) mask that confines attention to each sequence of a packed row.

    Args:
        sequence_ids: (B, L), k for a token of the k-th sequence of its row, 0 for padding. Padding sees padding, so
            that no row of the mask is empty.
    """
    return sequence_ids.unsqueeze(2) == sequence_ids.unsqueeze(1)


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """Return the (1, L, L) mask that lets position i see positions 0 to i, and none that comes later."""
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril()
