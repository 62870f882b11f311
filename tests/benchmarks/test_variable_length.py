"""Attention over texts of any lengths in one row: the bookkeeping, and equality with packed rows under a mask."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from benchmarks import variable_length
from benchmarks.pretraining_sides import our_loss
from benchmarks.random_texts import RandomTexts
from benchmarks.variable_length import (
    attention_by_text,
    spans_of_texts,
    spans_of_tokens,
    use_variable_lengths,
    variable_length_loss,
)
from d2lbert.config import BertConfig
from d2lbert.data.batching import pack, pad
from d2lbert.torch.pretraining import BertForPretraining

CPU = torch.device("cpu")
SIZES = {"hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 20}


def _texts() -> RandomTexts:
    """Five texts or so, of two to eleven tokens."""
    return RandomTexts.draw(40, 11, np.random.default_rng(3))


def _model() -> BertForPretraining:
    torch.manual_seed(0)
    config = BertConfig(**SIZES, max_position_embeddings=16, attention_probs_dropout_prob=0.0, initializer_range=0.3)
    return BertForPretraining(config).eval()


def test_where_texts_end() -> None:
    spans = spans_of_texts(np.array([7, 0, 3]), 9, CPU)  # texts of 3, 4 and 2 tokens
    assert spans.ends.tolist() == [0, 3, 7, 9]
    assert spans.ends.dtype == torch.int32
    assert spans.longest == 4
    assert spans.order is None


def test_where_some_tokens_belong() -> None:
    columns = np.array([8, 1, 4, 2, 0, 7])  # of the same texts; the second has one
    spans = spans_of_tokens(np.array([7, 0, 3]), columns, CPU)
    assert spans.ends.tolist() == [0, 3, 4, 6]
    assert spans.longest == 3
    assert spans.order is not None
    assert columns[spans.order.numpy()].tolist() == [1, 2, 0, 4, 8, 7]
    assert spans_of_tokens(np.array([7, 0, 3]), np.array([8]), CPU).ends.tolist() == [0, 0, 0, 1]


def test_attention_by_text_is_attention_under_a_mask() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(4, 2, 5), torch.randn(9, 2, 5), torch.randn(9, 2, 5)
    q_ends, k_ends = torch.tensor([0, 3, 3, 4]), torch.tensor([0, 3, 7, 9])
    found = attention_by_text(q, k, v, q_ends, k_ends, 3, 4)
    of_queries, of_keys = torch.tensor([0, 0, 0, 2]), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    scores = torch.einsum("shk,thk->hst", q, k) / 5**0.5
    weights = scores.masked_fill(of_queries[:, None] != of_keys, -torch.inf).softmax(-1)
    assert torch.allclose(found, torch.einsum("hst,thk->shk", weights, v), atol=1e-6)


def test_the_loss_and_its_gradients_are_those_of_packed_and_padded_rows() -> None:
    texts, losses, gradients = _texts(), [], []
    batches = (
        texts.batch(pack(texts.encodings, sum(map(len, texts.encodings)))),
        texts.batch(pack(texts.encodings, 16)),
        texts.batch(pad(texts.encodings)),
    )
    assert len(batches[0].rows.token_ids) == 1
    assert batches[0].rows.mask.all()
    for batch in batches:
        model = _model()
        if batch is batches[0]:
            use_variable_lengths(model)
        loss = (variable_length_loss if batch is batches[0] else our_loss)(model, batch)
        loss.backward()
        losses.append(loss.item())
        gradients.append({name: value.grad for name, value in model.named_parameters()})
    assert losses == pytest.approx(3 * losses[:1], abs=1e-5)
    for name, gradient in gradients[0].items():
        assert gradient is not None
        assert torch.allclose(gradient, gradients[1][name], atol=1e-5), name
        assert torch.allclose(gradient, gradients[2][name], atol=1e-5), name


def test_the_kernel_gets_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """On meta tensors PyTorch's own kernel checks what it is called with, and says the shape of what it returns."""
    calls = []

    def checked(
        q: Tensor, k: Tensor, v: Tensor, q_ends: Tensor, k_ends: Tensor, longest_q: int, longest_k: int
    ) -> Tensor:
        for part, ends, longest in ((q, q_ends, longest_q), (k, k_ends, longest_k)):
            assert ends.dtype == torch.int32
            assert ends.is_contiguous()
            assert (ends[0], ends[-1]) == (0, len(part))
            assert ends.diff().max() == longest
            assert part.stride(-1) == 1
        tensors = [one.to("meta", torch.bfloat16) for one in (q, k, v)]
        ends_of_both = [one.to("meta") for one in (q_ends, k_ends)]
        assert varlen_attn(*tensors, *ends_of_both, longest_q, longest_k).shape == q.shape
        calls.append(len(q))
        return attention_by_text(q, k, v, q_ends, k_ends, longest_q, longest_k)

    texts, model = _texts(), _model()
    use_variable_lengths(model)
    monkeypatch.setattr(variable_length, "attention_by_text", checked)
    batch = texts.batch(pack(texts.encodings, sum(map(len, texts.encodings))))
    variable_length_loss(model, batch)
    tokens, read = batch.rows.num_tokens, len(batch.positions) + len(texts.encodings)
    assert calls == [tokens, tokens, read]
