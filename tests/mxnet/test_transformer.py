"""The Transformer in MXNet: nothing looks ahead, padding changes nothing, tables are shared where asked."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from mxnet import nd

from d2lbert import UserError
from d2lbert.config import TransformerConfig
from d2lbert.mxnet.transformer import Transformer

SIZES = {
    "source_vocab_size": 20, "target_vocab_size": 20, "hidden_size": 12, "num_encoder_layers": 1,
    "num_decoder_layers": 2, "num_attention_heads": 3, "intermediate_size": 16, "max_position_embeddings": 9,
    "hidden_dropout_prob": 0.0,
}  # fmt: skip
SOURCE, TARGET = nd.array([[5, 6, 7, 8]]), nd.array([[1, 3, 4]])


def _model(**changes: object) -> Transformer:
    mxnet.random.seed(0)
    return Transformer(TransformerConfig(**{**SIZES, **changes}))  # type: ignore[arg-type]


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_later_token_of_the_target_changes_nothing_before_it(norm_first: bool) -> None:
    model = _model(norm_first=norm_first)
    one, two = (model(SOURCE, ids).logits.asnumpy() for ids in (TARGET, nd.array([[1, 3, 9]])))
    assert one.shape == (1, 3, 20)
    assert np.abs(one[:, :2] - two[:, :2]).max() < 1e-6
    assert np.abs(one[:, 2] - two[:, 2]).max() > 1e-3


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_block_needs_no_masks_and_gives_weights_on_request(norm_first: bool, hybridize: bool) -> None:
    block = next(iter(_model(norm_first=norm_first).decoder.blocks))
    if hybridize:
        block.hybridize()
    x, memory = (nd.random.normal(shape=(2, length, 12)) for length in (3, 5))
    plain, *nothing = block(x, memory)
    assert nothing == [None, None]
    y, weights, cross_weights = block(x, memory, nd.ones((1, 3, 3)), nd.ones((2, 5)), need_weights=True)
    assert np.abs(plain.asnumpy() - y.asnumpy()).max() < 1e-6
    assert (weights.shape, cross_weights.shape) == ((2, 3, 3, 3), (2, 3, 3, 5))


def test_padding_changes_nothing() -> None:
    model = _model()
    sources, targets = nd.array([[5, 6, 7, 8, 9]]), nd.array([[1, 3, 4, 9]])
    masks = nd.array([[1, 1, 1, 1, 0]]), nd.array([[1, 1, 1, 0]])
    expected = model(SOURCE, TARGET).logits.asnumpy()
    assert np.abs(model(sources, targets, *masks).logits.asnumpy()[:, :3] - expected).max() < 1e-5
    assert np.abs(model(sources, targets).logits.asnumpy()[:, :3] - expected).max() > 1e-3


def test_tables_are_shared_where_asked() -> None:
    shared, apart = _model(), _model(share_embeddings=False, tie_word_embeddings=False)
    assert shared.source_embedding is shared.target_embedding
    assert shared.output.weight is shared.target_embedding.weight
    assert apart.source_embedding is not apart.target_embedding
    assert apart.output.weight is not apart.target_embedding.weight


def test_attention_is_given_on_request() -> None:
    output = _model()(SOURCE, TARGET, output_attentions=True)
    assert [weights.shape for weights in output.decoder.attentions] == [(1, 3, 3, 3)] * 2
    assert [weights.shape for weights in output.decoder.cross_attentions] == [(1, 3, 3, 4)] * 2
    assert _model()(SOURCE, TARGET).decoder.attentions is None


def test_too_long_a_sequence_is_one_line() -> None:
    with pytest.raises(UserError, match="a sequence of 10 tokens, but the model has 9 positions: shorten the text"):
        _model()(nd.zeros((1, 10)), TARGET)
