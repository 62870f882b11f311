"""What MXNet's blocks stand on: keywords, arrays and symbols, names that both editions share."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from mxnet import gluon, nd, sym

from d2lbert import UserError
from d2lbert.mxnet.blocks import Block, Embedding, is_array, operations, shared_names


class _Weighted(Block):
    """Returns a x + b y."""

    def forward(self, x: Any, y: Any, a: float = 1.0, b: float = 10.0) -> Any:
        return super().forward(x, y, a * nd.ones((1,)), b * nd.ones((1,)))

    def hybrid_forward(self, F: ModuleType, x: Any, y: Any, a: Any, b: Any) -> Any:
        return F.broadcast_mul(x, a) + F.broadcast_mul(y, b)


@pytest.mark.parametrize("hybridize", [False, True])
def test_keywords_go_to_their_places(hybridize: bool) -> None:
    block = _Weighted()
    if hybridize:
        block.hybridize()
    x, y = nd.array([1.0]), nd.array([2.0])
    assert block(x, y).asscalar() == 21
    assert block(x, b=100.0, y=y).asscalar() == 201
    assert block(y=y, x=x, a=3.0).asscalar() == 23
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        block(x, y, c=1.0)


class _ByKeyword(Block):
    """Returns a x; ``a`` is taken by keyword alone."""

    def forward(self, x: Any, *, a: float = 1.0) -> Any:
        return a * x


@pytest.mark.parametrize("hybridize", [False, True])
def test_what_is_wanted_by_keyword_stays_a_keyword(hybridize: bool) -> None:
    block, seen = _ByKeyword(), []
    if hybridize:
        block.hybridize()
    block.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs)))
    block.register_forward_hook(lambda _, inputs, output: seen.append(output.asscalar()))
    x = nd.array([2.0])
    assert block(x).asscalar() == 2
    assert block(x, a=3.0).asscalar() == 6
    assert seen == [1, 2, 1, 6]
    with pytest.raises(TypeError, match="positional argument"):
        block(x, 3.0)


def test_arrays_and_symbols_have_their_operations() -> None:
    array, symbol = nd.array([-1.0]), sym.var("x")
    assert (is_array(array), is_array(symbol)) == (True, False)
    assert (operations(array), operations(symbol)) == (nd, sym)


class _Tied(gluon.HybridBlock):
    """An embedding whose matrix is the output layer's too, a LayerNorm, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = gluon.nn.Embedding(5, 3)
        self.norm = gluon.nn.LayerNorm(in_channels=3)
        self.output = gluon.nn.Dense(5, use_bias=False, in_units=3, params=self.embedding.params)
        self.table = self.params.get_constant("table", np.zeros((2, 2)))


def test_shared_names_are_those_of_torch_and_name_a_parameter_once() -> None:
    found = shared_names(_Tied())
    assert sorted(found) == ["embedding.weight", "norm.bias", "norm.weight"]
    assert found["norm.weight"].name.endswith("gamma")


@pytest.mark.parametrize("wrong", [-1, 3])
def test_an_id_outside_its_table_is_refused(wrong: int) -> None:
    table = Embedding(3, 2)
    table.initialize()
    rows = table(nd.array([[0, 2]], dtype="int32")).asnumpy()
    np.testing.assert_array_equal(rows[0], table.weight.data().asnumpy()[[0, 2]])
    with pytest.raises(UserError, match=f"id {wrong} is not from 0 to 2, the rows of its embeddings"):
        table(nd.array([[0, wrong]], dtype="int32"))
