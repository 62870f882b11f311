"""Attention and the encoder equal torch.nn under random parameters, with masks: outputs and a gradient."""

from __future__ import annotations

import pytest
import torch
from random_parameters import randomize
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.config.base import BlockSizes
from d2lbert.torch.attention import DotProductAttention, MultiHeadAttention
from d2lbert.torch.encoder import TransformerEncoder, TransformerEncoderBlock

B, L, M, D, H, F = 3, 7, 5, 12, 4, 20


def _padding(length: int) -> Tensor:
    """True = keep; every row keeps another number of positions."""
    return torch.arange(length)[None, :] < (length - torch.arange(B))[:, None]


def _copy_attention(reference: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    """torch.nn stacks the three input projections into one matrix."""
    state = {"output.weight": reference.out_proj.weight, "output.bias": reference.out_proj.bias}
    for index, name in enumerate(("query", "key", "value")):
        state[f"{name}.weight"] = reference.in_proj_weight.chunk(3)[index]
        state[f"{name}.bias"] = reference.in_proj_bias.chunk(3)[index]
    ours.load_state_dict(state)


def _copy_block(reference: nn.TransformerEncoderLayer, ours: TransformerEncoderBlock) -> None:
    _copy_attention(reference.self_attn, ours.attention)
    ours.attention_norm.load_state_dict(reference.norm1.state_dict())
    ours.feed_forward_norm.load_state_dict(reference.norm2.state_dict())
    ours.feed_forward.expand.load_state_dict(reference.linear1.state_dict())
    ours.feed_forward.project.load_state_dict(reference.linear2.state_dict())


def _same(expected: Tensor, actual: Tensor) -> bool:
    return float((expected - actual).detach().abs().max()) < 1e-5


@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention(need_weights: bool) -> None:
    torch.manual_seed(0)
    reference = nn.MultiheadAttention(D, H, batch_first=True)
    randomize(reference)
    ours = MultiHeadAttention(D, H)
    _copy_attention(reference, ours)
    queries, memory, mask = torch.randn(B, L, D, requires_grad=True), torch.randn(B, M, D), _padding(M)
    expected, expected_weights = reference(queries, memory, memory, key_padding_mask=~mask, average_attn_weights=False)
    got, weights = ours(queries, memory, memory, mask, need_weights)
    assert _same(expected, got)
    if need_weights:
        assert weights is not None
        assert _same(expected_weights, weights)
    direction = torch.randn_like(got)
    expected_gradient, gradient = (torch.autograd.grad((x * direction).sum(), queries)[0] for x in (expected, got))
    assert _same(expected_gradient, gradient)


def test_dot_product_attention_with_a_mask_per_query() -> None:
    torch.manual_seed(1)
    q, k, v = torch.randn(B, L, D), torch.randn(B, M, D), torch.randn(B, M, D + 1)
    mask = torch.rand(B, L, M) > 0.4
    mask[:, :, 0] = True
    expected = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert _same(expected, DotProductAttention()(q, k, v, mask)[0])


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder(norm_first: bool, activation: str) -> None:
    torch.manual_seed(2)
    layer = nn.TransformerEncoderLayer(
        D, H, F, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
    )
    norm = nn.LayerNorm(D) if norm_first else None
    reference = nn.TransformerEncoder(layer, 3, norm=norm, enable_nested_tensor=False)
    randomize(reference)
    ours = TransformerEncoder(BlockSizes(D, H, F, activation, 0.0, 0.0, norm_first=norm_first), 3)
    for theirs, block in zip(reference.layers, ours.blocks, strict=True):
        _copy_block(theirs, block)
    if norm is not None:
        ours.norm.load_state_dict(reference.norm.state_dict())
    x, mask = torch.randn(B, L, D), _padding(L)
    expected = reference(x, src_key_padding_mask=~mask)
    got = ours(x, mask).sequence
    assert _same(expected[mask], got[mask])
    direction = torch.randn_like(got[mask])
    (expected[mask] * direction).sum().backward()
    (got[mask] * direction).sum().backward()
    gradient = reference.layers[0].linear1.weight.grad
    our_gradient = ours.blocks[0].feed_forward.expand.weight.grad
    assert float((gradient - our_gradient).detach().abs().max()) < 1e-5 * max(1.0, float(gradient.abs().max()))
