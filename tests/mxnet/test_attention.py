"""Attention in MXNet by hand: masks, the empty row, keywords, graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import autograd, nd

from d2lbert.mxnet.attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    join_heads,
    masked_softmax,
    same_sequence,
    split_heads,
)


def _ready(layer: Any) -> Any:
    mxnet.random.seed(0)
    layer.initialize(mxnet.init.Normal(0.5))
    return layer


def test_masked_softmax_gives_nothing_to_what_is_masked() -> None:
    scores = nd.array([[1.0, 2.0, 50.0], [0.0, 0.0, 0.0]])
    weights = masked_softmax(scores, nd.array([[1, 1, 0], [1, 1, 1]])).asnumpy()
    expected = 1 / (1 + math.e)
    assert weights[0].tolist() == pytest.approx([expected, 1 - expected, 0.0])
    assert weights[1].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64", "uint8"])
def test_a_mask_may_be_of_any_type(dtype: str) -> None:
    mask = nd.array([[1, 1, 0], [0, 1, 1]], dtype=dtype)
    layer = _ready(MultiHeadAttention(8, 2))
    x = nd.random.normal(shape=(2, 3, 8))
    expected = layer(x, x, x, mask.astype("float32"))[0].asnumpy()
    layer.hybridize()
    assert np.array_equal(layer(x, x, x, mask)[0].asnumpy(), expected)


@pytest.mark.parametrize("hybridize", [False, True])
def test_row_that_keeps_nothing_is_zero_and_has_a_finite_gradient(hybridize: bool) -> None:
    layer = _ready(MultiHeadAttention(8, 2))
    layer.output.bias.set_data(nd.arange(8))
    if hybridize:
        layer.hybridize()
    x = nd.random.normal(shape=(2, 3, 8))
    x.attach_grad()
    with autograd.record():
        output, weights = layer(x, x, x, nd.array([[1, 1, 0], [0, 0, 0]]), need_weights=True)
    output.backward()
    assert np.isfinite(output.asnumpy()).all()
    assert np.isfinite(x.grad.asnumpy()).all()
    assert np.isfinite(layer.query.weight.grad().asnumpy()).all()
    assert not weights.asnumpy()[1].any()
    # Nothing attended to: only the bias of the output projection is left.
    assert np.array_equal(output.asnumpy()[1], np.tile(np.arange(8), (3, 1)))


def test_masked_memory_has_no_influence() -> None:
    mxnet.random.seed(0)
    queries, memory = nd.random.normal(shape=(1, 2, 6)), nd.random.normal(shape=(1, 4, 6))
    changed = memory.copy()
    changed[0, 3] = 1e4
    mask = nd.array([[1, 1, 1, 0]])
    for layer in (AdditiveAttention(6, 6, 5), DotProductAttention(), MultiHeadAttention(6, 3)):
        _ready(layer)
        one, two = (layer(queries, given, given, mask)[0].asnumpy() for given in (memory, changed))
        assert np.array_equal(one, two)
        assert not np.array_equal(one, layer(queries, changed, changed)[0].asnumpy())


def test_heads_split_and_join() -> None:
    x = nd.arange(24).reshape((1, 2, 12))
    heads = split_heads(x, 3)
    assert heads.shape == (1, 3, 2, 4)
    assert heads[0, 1, 0].asnumpy().tolist() == [4, 5, 6, 7]
    assert np.array_equal(join_heads(heads).asnumpy(), x.asnumpy())


def test_heads_must_divide_the_size() -> None:
    with pytest.raises(ValueError, match="5 does not divide hidden_size 12"):
        MultiHeadAttention(12, 5)


def test_packed_mask_is_block_diagonal() -> None:
    mask = same_sequence(nd.array([[1, 1, 2, 0]], dtype="int32"))[0].asnumpy()
    assert mask.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_one_graph_serves_calls_with_and_without_masks() -> None:
    layer = _ready(MultiHeadAttention(8, 2))
    x = nd.random.normal(shape=(2, 3, 8))
    masks = [None, nd.array([[1, 1, 0], [1, 0, 0]]), nd.array(np.tri(3)[None].repeat(2, 0)), None]
    expected = [layer(x, x, x, mask)[0].asnumpy() for mask in masks]
    layer.hybridize()
    for mask, output in zip(masks, expected, strict=True):
        assert np.abs(layer(x, x, x, mask)[0].asnumpy() - output).max() < 1e-6


def test_keywords_go_where_they_belong() -> None:
    layer = _ready(MultiHeadAttention(8, 2))
    x, memory = nd.random.normal(shape=(2, 3, 8)), nd.random.normal(shape=(2, 5, 8))
    mask = nd.array([[1, 1, 0, 0, 1], [1, 0, 0, 0, 0]])
    expected, _ = layer(x, memory, memory, mask)
    output, weights = layer(x, need_weights=True, mask=mask, values=memory, keys=memory)
    assert weights.shape == (2, 2, 3, 5)
    assert np.array_equal(output.asnumpy(), expected.asnumpy())
    with pytest.raises(TypeError, match="valid_length"):
        layer(x, memory, memory, valid_length=3)


def test_dropout_acts_only_in_training() -> None:
    layer = _ready(MultiHeadAttention(8, 2, dropout=0.5))
    x = nd.random.normal(shape=(1, 6, 8))
    with autograd.record():
        one, two = (layer(x, x, x)[0].asnumpy() for _ in range(2))
    assert not np.array_equal(one, two)
    one, two = (layer(x, x, x)[0].asnumpy() for _ in range(2))
    assert np.array_equal(one, two)
