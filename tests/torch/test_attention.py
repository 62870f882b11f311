"""Attention by hand: masks, the empty row, shapes, the known small cases."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from d2lbert.torch.attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    fused_attention,
    join_heads,
    masked_softmax,
    same_sequence,
    split_heads,
)


def test_masked_softmax_gives_nothing_to_what_is_masked() -> None:
    scores = torch.tensor([[1.0, 2.0, 50.0], [0.0, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    weights = masked_softmax(scores, mask)
    expected = 1 / (1 + math.e)
    assert weights[0].tolist() == pytest.approx([expected, 1 - expected, 0.0])
    assert weights[1].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("attention", ["explicit", "fused"])
def test_row_that_keeps_nothing_is_zero_and_has_a_finite_gradient(attention: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2)
    x = torch.randn(2, 3, 8, requires_grad=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    output, _ = layer(x, x, x, mask, need_weights=attention == "explicit")
    output.sum().backward()
    assert torch.isfinite(output).all()
    assert torch.isfinite(x.grad).all()
    # Nothing attended to: only the bias of the output projection is left.
    assert torch.allclose(output[1], layer.output.bias.expand(3, 8))


def test_masked_memory_has_no_influence() -> None:
    torch.manual_seed(0)
    queries, memory = torch.randn(1, 2, 6), torch.randn(1, 4, 6)
    mask = torch.tensor([[True, True, True, False]])
    changed = memory.clone()
    changed[0, 3] = 1e4
    for layer in (AdditiveAttention(6, 6, 5), DotProductAttention(), MultiHeadAttention(6, 3)):
        assert torch.allclose(layer(queries, memory, memory, mask)[0], layer(queries, changed, changed, mask)[0])


def test_scores_by_hand() -> None:
    queries = torch.tensor([[[2.0, 0.0]]])
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    values = torch.tensor([[[10.0], [20.0]]])
    output, weights = DotProductAttention()(queries, keys, values)
    first = math.exp(math.sqrt(2)) / (math.exp(math.sqrt(2)) + 1)
    assert weights[0, 0].tolist() == pytest.approx([first, 1 - first])
    assert output.item() == pytest.approx(10 * first + 20 * (1 - first))


def test_additive_score_is_the_papers_formula() -> None:
    torch.manual_seed(0)
    layer = AdditiveAttention(3, 4, 5)
    queries, keys = torch.randn(1, 2, 3), torch.randn(1, 6, 4)
    _, weights = layer(queries, keys, keys)
    scores = torch.empty(2, 6)
    for i in range(2):
        for j in range(6):
            hidden = torch.tanh(layer.query.weight @ queries[0, i] + layer.key.weight @ keys[0, j])
            scores[i, j] = layer.score.weight[0] @ hidden
    assert torch.allclose(weights[0], scores.softmax(-1), atol=1e-6)


def test_heads_split_and_join() -> None:
    x = torch.arange(24.0).view(1, 2, 12)
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 4)
    assert heads[0, 1, 0].tolist() == [4, 5, 6, 7]
    assert torch.equal(join_heads(heads), x)


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(ValueError, match="5 does not divide hidden_size 12"):
        MultiHeadAttention(12, 5)


def test_heads_of_another_size() -> None:
    """With a size of its own, a head is as wide as it says, and need not divide anything."""
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, 5, head_size=3), torch.randn(2, 4, 12)
    shapes = {name: tuple(weight.shape) for name, weight in layer.named_parameters() if name.endswith("weight")}
    assert shapes == {
        "query.weight": (15, 12),
        "key.weight": (15, 12),
        "value.weight": (15, 12),
        "output.weight": (12, 15),
    }
    output, weights = layer(x, x, x, need_weights=True)
    assert output.shape == (2, 4, 12)
    assert weights.shape == (2, 5, 4, 4)
    assert torch.allclose(layer(x, x, x)[0], output, atol=1e-6)


def test_packed_mask_is_block_diagonal() -> None:
    mask = same_sequence(torch.tensor([[1, 1, 2, 0]]))[0]
    assert mask.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_dropout_acts_only_in_training() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, dropout=0.5)
    x = torch.randn(1, 6, 8)
    assert not torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])
    layer.eval()
    assert torch.equal(layer(x, x, x)[0], layer(x, x, x)[0])


def test_training_in_bfloat16_on_a_processor_computes_in_float32() -> None:
    """Its slopes are those of float32, rounded once; without slopes or with dropout the kernel is taken as it is."""
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(2, 3, 9, 8, generator=generator).bfloat16() for _ in range(3)]
    mask = same_sequence(torch.tensor([[1] * 4 + [2] * 5, [1] * 9])).unsqueeze(1)

    leaves = [one.clone().requires_grad_() for one in given]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = fused_attention(*leaves, mask, 0.0)
    mixed.sum().backward()
    exact = [one.float().requires_grad_() for one in given]
    outcome = functional.scaled_dot_product_attention(*exact, attn_mask=mask)
    outcome.sum().backward()
    assert torch.equal(mixed, outcome.bfloat16())
    for own, one in zip(leaves, exact, strict=True):
        assert one.grad is not None
        assert torch.equal(own.grad, one.grad.bfloat16())
    as_it_is = functional.scaled_dot_product_attention(*given, attn_mask=mask)
    assert torch.equal(fused_attention(*given, mask, 0.0), as_it_is)
    assert not torch.equal(as_it_is, outcome.bfloat16())
    in_float32 = functional.scaled_dot_product_attention(*(one.float() for one in given), attn_mask=mask)
    assert torch.equal(fused_attention(*given[:2], leaves[2], mask, 0.0), in_float32.bfloat16())
    torch.manual_seed(1)
    dropped = functional.scaled_dot_product_attention(*leaves, attn_mask=mask, dropout_p=0.5)
    torch.manual_seed(1)
    assert torch.equal(fused_attention(*leaves, mask, 0.5), dropped)
    assert not torch.equal(dropped, mixed)
