"""Attention: masked softmax, additive and dot-product scores, multi-head attention.

Shape legend: B batch, L length of the queries, M length of the memory (keys and values), D hidden size, H heads,
K size of a head. In every mask, 1 means keep; a mask may be of any number type.

``forward`` is what a caller sees; it gives the arguments one fixed form. ``hybrid_forward`` computes, on arrays or,
once hybridized, as a recorded graph. Call ``initialize()`` before the first use, as with every Gluon block.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from mxnet import Context, nd
from mxnet.gluon import nn

from d2lbert.mxnet.blocks import Block, is_array, operations

# Array or symbol: MXNet has no types that a checker could read.
Tensor = Any
_LOWEST = float(np.finfo(np.float32).min)


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the last axis, with weight zero wherever ``mask`` is 0.

    A row that keeps nothing gets weight zero everywhere. Filling with minus infinity, the usual recipe, would make
    such a row NaN, and the gradients of its scores or values with it.

    Args:
        scores: (..., M), real numbers.
        mask: broadcastable to ``scores``; a symbol must have as many axes as ``scores``.

    Returns:
        Weights (..., M): non-negative, each row sums to one, or to zero where nothing is kept.
    """
    F = operations(scores)
    if mask is None:
        return F.softmax(scores, axis=-1)
    if is_array(mask):
        mask = mask.reshape((1,) * (scores.ndim - mask.ndim) + mask.shape)
    keep = F.broadcast_like(mask, scores)
    zeros = F.zeros_like(scores)
    weights = F.softmax(F.where(keep, scores, zeros + _LOWEST), axis=-1)
    return F.where(keep, weights, zeros)


class AdditiveAttention(Block):
    """Attention with a one-layer network as its score (Bahdanau et al. 2015, appendix A.1.2).

    score(q, k) = v . tanh(W_q q + W_k k). Queries and keys may have different sizes.
    """

    def __init__(self, query_size: int, key_size: int, hidden_size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.query = nn.Dense(hidden_size, use_bias=False, flatten=False, in_units=query_size)
        self.key = nn.Dense(hidden_size, use_bias=False, flatten=False, in_units=key_size)
        self.score = nn.Dense(1, use_bias=False, flatten=False, in_units=hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the mixed values (B, L, Dv) and the weights (B, L, M).

        Args:
            queries: (B, L, Dq).  keys: (B, M, Dk).  values: (B, M, Dv).  mask: (B, M) or (B, L, M).
        """
        mixed, weights = super().forward(queries, keys, values, always_a_mask(mask, queries))
        return mixed, weights

    def hybrid_forward(
        self, F: ModuleType, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute; the mask is (B or 1, L or 1, M or 1)."""
        query = F.expand_dims(self.query(queries), axis=2)  # (B, L, 1, hidden)
        key = F.expand_dims(self.key(keys), axis=1)  # (B, 1, M, hidden)
        hidden = F.tanh(F.broadcast_add(query, key))  # (B, L, M, hidden)
        weights = masked_softmax(F.squeeze(self.score(hidden), axis=-1), mask)  # (B, L, M)
        return F.batch_dot(self.dropout(weights), values), weights


class DotProductAttention(Block):
    """Scaled dot-product attention (Vaswani et al. 2017, equation 1): softmax(Q K^T / sqrt(d)) V.

    Without the scale the variance of a score grows with the size d, and the softmax of large scores has almost no
    gradient. The block has no parameters.
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
        mask = always_a_mask(mask, queries)
        if is_array(mask):
            mask = mask.reshape((1,) * (queries.ndim - mask.ndim) + mask.shape)
        mixed, weights = super().forward(queries, keys, values, mask)
        return mixed, weights

    def hybrid_forward(
        self, F: ModuleType, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute; the mask has as many axes as the scores."""
        # div_sqrt_dim divides by the root of the last axis' size, which a symbol does not know by itself.
        scores = F.batch_dot(F.contrib.div_sqrt_dim(queries), keys, transpose_b=True)  # (..., L, M)
        weights = masked_softmax(scores, mask)
        return F.batch_dot(self.dropout(weights), values), weights


class MultiHeadAttention(Block):
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2): H attentions side by side, each of size K = D / H.

    Differs from the paper in that the projections have biases, as in BERT; ``bias=False`` gives the paper's.

    Args:
        hidden_size: D, the size of queries and of the output; ``num_heads`` must divide it.
        num_heads: H.
        dropout: rate of dropout on the attention weights.
        bias: whether the four projections have a bias.
        key_size, value_size: sizes of the keys and values that come in; D by default.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        key_size: int | None = None,
        value_size: int | None = None,
    ) -> None:
        super().__init__()
        if hidden_size % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide hidden_size {hidden_size}")
        self.num_heads = num_heads
        self.query = nn.Dense(hidden_size, use_bias=bias, flatten=False, in_units=hidden_size)
        self.key = nn.Dense(hidden_size, use_bias=bias, flatten=False, in_units=key_size or hidden_size)
        self.value = nn.Dense(hidden_size, use_bias=bias, flatten=False, in_units=value_size or hidden_size)
        self.output = nn.Dense(hidden_size, use_bias=bias, flatten=False, in_units=hidden_size)
        self.attention = DotProductAttention(dropout)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (B, L, D) and, on request, the weights (B, H, L, M).

        Args:
            queries: (B, L, D).  keys: (B, M, Dk).  values: (B, M, Dv).  mask: (B, M) or (B, L, M), 1 = keep.
        """
        output, weights = super().forward(queries, keys, values, always_a_mask(mask, queries))
        return output, weights if need_weights else None

    def hybrid_forward(
        self, F: ModuleType, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Compute; the mask is (B or 1, L or 1, M or 1)."""
        q = split_heads(self.query(queries), self.num_heads)  # (B, H, L, K)
        k = split_heads(self.key(keys), self.num_heads)  # (B, H, M, K)
        v = split_heads(self.value(values), self.num_heads)  # (B, H, M, K)
        if mask is not None:
            mask = F.expand_dims(mask, axis=1)  # one more axis: the same for every head
        mixed, weights = self.attention(q, k, v, mask)  # (B, H, L, K), (B, H, L, M)
        return self.output(join_heads(mixed)), weights


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Cut the last axis into heads: (B, L, H K) -> (B, H, L, K)."""
    F = operations(x)
    # In MXNet's reshape, 0 keeps an axis and -1 takes what is left: no shape has to be known.
    return F.transpose(F.reshape(x, shape=(0, 0, num_heads, -1)), axes=(0, 2, 1, 3))


def join_heads(x: Tensor) -> Tensor:
    """Undo :func:`split_heads`: (B, H, L, K) -> (B, L, H K)."""
    F = operations(x)
    return F.reshape(F.transpose(x, axes=(0, 2, 1, 3)), shape=(0, 0, -1))


def per_query(mask: Tensor | None) -> Tensor | None:
    """Give a mask of the memory (B, M) an axis for the queries, (B, 1, M); leave a mask with one as it is.

    A symbol is left as it is too: whoever called with arrays, further out, has done it already.
    """
    return mask.expand_dims(1) if is_array(mask) and mask.ndim == 2 else mask


def same_sequence(sequence_ids: Tensor) -> Tensor:
    """Return the (B, L, L) mask that confines attention to each sequence of a packed row.

    Args:
        sequence_ids: (B, L), k for a token of the k-th sequence of its row, 0 for padding. Padding sees padding, so
            that no row of the mask is empty.
    """
    F = operations(sequence_ids)
    return F.broadcast_equal(F.expand_dims(sequence_ids, axis=2), F.expand_dims(sequence_ids, axis=1))


def causal_mask(length: int, device: Context | None = None) -> Tensor:
    """Return the (1, L, L) mask that lets position i see positions 0 to i, and none that comes later."""
    return nd.array(np.tri(length), ctx=device).expand_dims(0)


def always_a_mask(mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return the mask with an axis for the queries, and for arrays without a mask one that keeps everything.

    A hybridized block remembers which arguments its first call had, and refuses a later one with other arguments.
    With a mask always there, calls with and without one share a graph.
    """
    if mask is None and is_array(x):
        return nd.ones((1, 1, 1), ctx=x.context)
    return per_query(mask)
