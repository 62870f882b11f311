"""Attention over texts of any lengths without padding: all texts of a batch in one row, and where each begins.

The kernel is PyTorch's flash attention for variable lengths (Dao et al. 2022), ``torch.nn.attention.varlen``. It takes
the tokens of all texts one after the other, and the cumulative numbers of tokens, so there is neither padding nor a
mask. It has no dropout on the weights, and runs on a GPU in 16 bits only; elsewhere a loop over the texts takes its
place, so that the bookkeeping can be shown to be right on a processor.

Shape legend: N texts, T tokens of all texts, S tokens that ask (all, or in the last block those that are read), H
heads, K size of a head, D hidden size.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn

from benchmarks.pretraining_sides import loss_of_rows
from d2lbert.data.batching import Batch
from d2lbert.data.pretraining.batches import PretrainingBatch
from d2lbert.torch.attention import MultiHeadAttention, split_heads
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_device, to_tensors


@dataclass(frozen=True)
class Spans:
    """Which tokens belong to which text.

    Fields:
        ends: (N + 1,) int32, the number of tokens of the texts before each text, and of all at the end.
        longest: the most tokens of a text.
        order: (S,), brings the tokens text after text; None where they stand so.
    """

    ends: Tensor
    longest: int
    order: Tensor | None = None


def spans_of_texts(starts: np.ndarray, tokens: int, device: torch.device) -> Spans:
    """Return the spans of texts in one row.

    Args:
        starts: (N,), the columns where they begin, in any order; the row has no padding.
        tokens: T.
        device: where the model is.
    """
    ends = np.append(np.sort(starts), tokens)
    return Spans(to_device(ends.astype(np.int32), device), int(np.diff(ends).max()))


def spans_of_tokens(starts: np.ndarray, columns: np.ndarray, device: torch.device) -> Spans:
    """Return the spans of some tokens of the texts in one row, which come in any order.

    Args:
        starts: (N,), the columns where the texts begin, in any order.
        columns: (S,), of the tokens. A text may have none.
        device: where the model is.
    """
    texts = np.searchsorted(np.sort(starts), columns, side="right") - 1  # (S,)
    counts = np.bincount(texts, minlength=len(starts))
    ends = np.append(0, counts.cumsum()).astype(np.int32)
    order = texts.argsort(kind="stable")
    return Spans(to_device(ends, device), int(counts.max()), to_device(order, device))


def attention_by_text(
    q: Tensor, k: Tensor, v: Tensor, q_ends: Tensor, k_ends: Tensor, longest_q: int, longest_k: int
) -> Tensor:
    """Compute what ``varlen_attn`` computes, text by text, on any device and in any precision.

    Args:
        q: (S, H, K).  k, v: (T, H, K).
        q_ends, k_ends: (N + 1,), the cumulative numbers of queries and of keys.
        longest_q, longest_k: not needed here; the kernel needs them.
    """
    parts = []
    for text in range(len(q_ends) - 1):
        own = slice(int(q_ends[text]), int(q_ends[text + 1]))
        seen = slice(int(k_ends[text]), int(k_ends[text + 1]))
        heads = (part.transpose(0, 1) for part in (q[own], k[seen], v[seen]))  # (H, its tokens, K) each
        parts.append(functional.scaled_dot_product_attention(*heads).transpose(0, 1))
    return torch.cat(parts)


class VariableLengthAttention(MultiHeadAttention):
    """Multi-head attention among the tokens of each text, with the layers of another attention.

    Attributes:
        texts: of the tokens that are attended to, set for each batch.
        queries: of the tokens that ask, set for each batch.
    """

    def __init__(self, attention: MultiHeadAttention) -> None:
        nn.Module.__init__(self)
        self.num_heads, self.attention = attention.num_heads, attention.attention
        self.query, self.key, self.value, self.output = (
            attention.query,
            attention.key,
            attention.value,
            attention.output,
        )
        self.texts: Spans | None = None
        self.queries: Spans | None = None

    def attend(
        self, queries: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output (1, S, D) for queries (1, S, D), with k and v (1, H, T, K) and no mask."""
        assert self.texts is not None
        assert self.queries is not None
        assert mask is None
        assert not need_weights
        q = split_heads(self.query(queries), self.num_heads)
        q, k, v = (x.squeeze(0).transpose(0, 1) for x in (q, k, v))  # (S, H, K), (T, H, K) twice
        order = self.queries.order
        if order is not None:
            q = q[order]
        on_gpu = q.is_cuda and q.dtype in (torch.bfloat16, torch.float16)
        kernel = varlen_attn if on_gpu else attention_by_text
        mixed = kernel(q, k, v, self.queries.ends, self.texts.ends, self.queries.longest, self.texts.longest)
        if order is not None:
            mixed = torch.empty_like(mixed).index_copy(0, order, mixed)
        return self.output(mixed.flatten(1).unsqueeze(0)), None


def use_variable_lengths(model: BertForPretraining) -> None:
    """Give every block of a model the attention above, with the weights that it has."""
    for block in model.bert.encoder.layers():
        block.attention = VariableLengthAttention(block.attention)


def tell_spans(model: BertForPretraining, rows: Batch, positions: np.ndarray) -> None:
    """Tell the attention of each block which tokens of a batch belong to which text.

    Args:
        rows: all texts in one row.
        positions: (P,), the columns of the masked tokens. The last block is computed for these and, after them, for the
            first token of every text.
    """
    device, starts = model.decoder_bias.device, rows.starts[:, 1]
    texts = spans_of_texts(starts, rows.token_ids.shape[1], device)
    *blocks, last = (block.attention for block in model.bert.encoder.layers())
    for attention in (*blocks, last):
        attention.texts = attention.queries = texts
    last.queries = spans_of_tokens(starts, np.concatenate([positions, starts]), device)


def variable_length_loss(model: BertForPretraining, batch: PretrainingBatch) -> Tensor:
    """Return the loss of a batch whose texts stand in one row."""
    tell_spans(model, batch.rows, batch.positions)
    rows = dataclasses.replace(to_tensors(batch.rows, model.decoder_bias.device), sequence_ids=None)  # no mask is made
    return loss_of_rows(model, batch, rows)
