"""The recurrent encoder-decoder in MXNet: padding changes nothing, nothing looks ahead, attention sums to one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import nd

from d2lbert.config import Seq2SeqConfig
from d2lbert.mxnet.seq2seq import Seq2Seq


def _model(**changes: object) -> Seq2Seq:
    mxnet.random.seed(3)
    model = Seq2Seq(Seq2SeqConfig(20, 15, 8, embedding_size=6, hidden_dropout_prob=0.0, **changes))  # type: ignore
    model.initialize(mxnet.init.Normal(0.5), force_reinit=True)
    return model


SOURCE, TARGET = nd.array([[5, 6, 7, 8]]), nd.array([[1, 3, 4]])


@pytest.mark.parametrize("cell", ["gru", "lstm"])
@pytest.mark.parametrize("attention", ["none", "additive", "dot"])
def test_padding_of_the_source_changes_nothing(cell: str, attention: str) -> None:
    model = _model(cell=cell, attention=attention)
    padded, mask = nd.array([[5, 6, 7, 8, 9, 9]]), nd.array([[1, 1, 1, 1, 0, 0]])
    expected, found = model(SOURCE, TARGET).logits.asnumpy(), model(padded, TARGET, mask).logits.asnumpy()
    assert found.shape == (1, 3, 15)
    assert np.abs(found - expected).max() < 1e-6
    assert np.abs(model(padded, TARGET).logits.asnumpy() - expected).max() > 1e-4


def test_a_later_token_of_the_target_changes_nothing_before_it() -> None:
    model = _model()
    changed = nd.array([[1, 3, 9]])
    one, two = (model(SOURCE, ids).logits.asnumpy() for ids in (TARGET, changed))
    assert np.array_equal(one[:, :2], two[:, :2])
    assert not np.allclose(one[:, 2], two[:, 2])


def test_attention_weights_are_shares_of_the_source() -> None:
    mask = nd.array([[1, 1, 0, 0]])
    weights = _model(attention="additive")(SOURCE, TARGET, mask).attentions.asnumpy()
    assert weights.shape == (1, 3, 4)
    assert weights.sum(-1) == pytest.approx(np.ones((1, 3)))
    assert not weights[..., 2:].any()
    assert _model(attention="none")(SOURCE, TARGET).attentions is None
