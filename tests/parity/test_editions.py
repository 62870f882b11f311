"""The MXNet edition equals the PyTorch edition: outputs, gradients of every parameter, and files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity_support import BatchOfIds, small_config

import d2lbert
from d2lbert import UserError
from d2lbert.config.base import BlockSizes
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.text.encoding import Encoding
from d2lbert.torch import attention as torch_attention
from d2lbert.torch import bert as torch_bert
from d2lbert.torch import encoder as torch_encoder
from d2lbert.torch import runtime as torch_runtime

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run

from d2lbert.mxnet import attention, bert, encoder, runtime

B, L, M, D, H, F = 3, 7, 5, 12, 4, 20
LENGTHS = (5, 17, 3, 30, 11, 2, 24, 8)


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def _mask(kind: str, queries: int = L, memory: int = M) -> np.ndarray | None:
    """No mask, padding of unequal length, a mask per query, or padding with one row that keeps nothing."""
    padding = np.arange(memory)[None, :] < (memory - np.arange(B))[:, None]  # (B, M)
    if kind == "none":
        return None
    if kind == "per query":
        return np.random.default_rng(1).random((B, queries, memory)) > 0.5
    if kind == "empty row":
        padding[1] = False
    return padding


def _both(mask: np.ndarray | None) -> tuple[torch.Tensor | None, Any]:
    return (None, None) if mask is None else (torch.from_numpy(mask), mxnet.nd.array(mask))


def _pair(torch_layer: torch.nn.Module, layer: Any, hybridize: bool) -> tuple[torch.nn.Module, Any]:
    same_random_parameters(torch_layer, layer)
    if hybridize:
        layer.hybridize()
    return torch_layer.eval(), layer


@pytest.mark.parametrize("kind", ["none", "padding", "per query", "empty row"])
@pytest.mark.parametrize("hybridize", [False, True])
def test_additive_attention(kind: str, hybridize: bool) -> None:
    one, two = _pair(torch_attention.AdditiveAttention(6, 9, 8), attention.AdditiveAttention(6, 9, 8), hybridize)
    theirs, ours = _both(_mask(kind))
    inputs = [_random(B, L, 6), _random(B, M, 9), _random(B, M, 10)]
    expected = torch_run(one, lambda q, k, v: one(q, k, v, theirs), inputs)
    assert_same(expected, mxnet_run(two, lambda q, k, v: two(q, k, v, ours), inputs))


@pytest.mark.parametrize("kind", ["none", "padding", "per query", "empty row"])
@pytest.mark.parametrize("hybridize", [False, True])
def test_dot_product_attention(kind: str, hybridize: bool) -> None:
    one, two = _pair(torch_attention.DotProductAttention(), attention.DotProductAttention(), hybridize)
    theirs, ours = _both(_mask(kind))
    inputs = [_random(B, L, D), _random(B, M, D), _random(B, M, 10)]
    expected = torch_run(one, lambda q, k, v: one(q, k, v, theirs), inputs)
    assert_same(expected, mxnet_run(two, lambda q, k, v: two(q, k, v, ours), inputs))


@pytest.mark.parametrize("kind", ["none", "padding", "per query", "empty row"])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_multi_head_attention(kind: str, hybridize: bool, bias: bool) -> None:
    sizes = {"hidden_size": D, "num_heads": H, "bias": bias, "key_size": 9, "value_size": 10}
    one, two = _pair(torch_attention.MultiHeadAttention(**sizes), attention.MultiHeadAttention(**sizes), hybridize)
    theirs, ours = _both(_mask(kind))
    inputs = [_random(B, L, D), _random(B, M, 9), _random(B, M, 10)]
    expected = torch_run(one, lambda q, k, v: one(q, k, v, theirs, need_weights=True), inputs)
    assert_same(expected, mxnet_run(two, lambda q, k, v: two(q, k, v, ours, need_weights=True), inputs))
    queries, keys, values = (mxnet.nd.array(array) for array in inputs)
    output, weights = two(queries, keys, values, ours)
    assert weights is None
    assert np.abs(output.asnumpy() - expected[0][0]).max() < 1e-5


def test_masked_softmax_aligns_axes_from_the_right() -> None:
    scores, mask = _random(B, L, M), np.array([1, 0, 1, 1, 0])
    expected = torch_attention.masked_softmax(torch.from_numpy(scores), torch.from_numpy(mask).bool()).numpy()
    got = attention.masked_softmax(mxnet.nd.array(scores), mxnet.nd.array(mask, dtype="int32")).asnumpy()
    assert np.abs(expected - got).max() < 1e-6


@pytest.mark.parametrize("hidden_size", [8, 9])
def test_sinusoidal_positions(hidden_size: int) -> None:
    x = _random(B, L, hidden_size)
    layer = encoder.SinusoidalPositions(hidden_size, 31)
    layer.initialize()
    expected = torch_encoder.SinusoidalPositions(hidden_size, 31)(torch.from_numpy(x)).numpy()
    plain = layer(mxnet.nd.array(x)).asnumpy()
    layer.hybridize()
    assert np.abs(expected - plain).max() < 1e-5
    assert np.abs(expected - layer(mxnet.nd.array(x)).asnumpy()).max() < 1e-5
    assert encoder.count_parameters(layer) == 0
    with pytest.raises(ValueError, match="length 32 is longer than the table of 31"):
        layer(mxnet.nd.zeros((1, 32, hidden_size)))


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_new"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
def test_encoder(activation: str, norm_first: bool, hybridize: bool) -> None:
    sizes = BlockSizes(D, H, F, activation, norm_first=norm_first, layer_norm_eps=1e-3)
    one, two = _pair(torch_encoder.TransformerEncoder(sizes, 3), encoder.TransformerEncoder(sizes, 3), hybridize)
    theirs, ours = _both(_mask("padding", L, L))
    expected = torch_run(one, lambda x: _outputs(one(x, theirs, True, True)), [_random(B, L, D)])
    assert_same(expected, mxnet_run(two, lambda x: _outputs(two(x, ours, True, True)), [_random(B, L, D)]))
    assert len(expected[0]) == 1 + 4 + 3


@pytest.mark.parametrize("kind", ["none", "padding", "per query"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("hybridize", [False, True])
def test_block_for_some_positions(kind: str, norm_first: bool, hybridize: bool) -> None:
    sizes = BlockSizes(D, H, F, norm_first=norm_first)
    one, two = _pair(torch_encoder.TransformerEncoder(sizes, 2), encoder.TransformerEncoder(sizes, 2), hybridize)
    theirs, ours = _both(_mask(kind, L, L))
    positions = np.array([[4, 0], [2, 2], [6, 1]])  # one of them twice: its gradients add up
    expected = torch_run(one, lambda x: [one.forward_at(x, theirs, torch.from_numpy(positions))], [_random(B, L, D)])
    got = mxnet_run(two, lambda x: [two.forward_at(x, ours, mxnet.nd.array(positions))], [_random(B, L, D)])
    assert_same(expected, got)


def _outputs(output: Any) -> list[Any]:
    """The arrays of an encoder's or BERT's output, one after the other."""
    pooled = [output.pooled] if hasattr(output, "pooled") else []
    return [output.sequence, *pooled, *(output.hidden_states or ()), *(output.attentions or ())]


def pack_rows(encodings: Sequence[Encoding]) -> Batch:
    """Pack into rows so short that there are several."""
    return pack(encodings, width=40)


def _batch(arrange: Callable[..., Batch]) -> Batch:
    generator = np.random.default_rng(3)
    return arrange([BatchOfIds.encoding(generator, length) for length in LENGTHS])


def _berts(hybridize: bool = False, **changes: Any) -> tuple[torch_bert.BertModel, Any]:
    config = small_config(**changes)
    one, two = _pair(torch_bert.BertModel(config), bert.BertModel(config), hybridize)
    return one, two


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_new"])
@pytest.mark.parametrize("arrange", [pad, pack_rows])
@pytest.mark.parametrize("hybridize", [False, True])
def test_bert(activation: str, arrange: Callable[..., Batch], hybridize: bool) -> None:
    one, two = _berts(hybridize, hidden_act=activation)
    batch = _batch(arrange)
    assert batch.packed == (batch.token_ids.shape[0] < len(LENGTHS))
    flags = {"output_hidden_states": True, "output_attentions": True}
    theirs, ours = torch_runtime.to_tensors(batch), runtime.to_tensors(batch)
    expected = torch_run(one, lambda: _outputs(one(theirs, **flags)), [])
    assert_same(expected, mxnet_run(two, lambda: _outputs(two(ours, **flags)), []))
    assert len(expected[0]) == 2 + 4 + 3
    plain = two(ours)
    assert plain.hidden_states is None
    assert plain.attentions is None
    assert np.abs(plain.pooled.asnumpy() - expected[0][1]).max() < 1e-5


@pytest.mark.parametrize("arrange", [pad, pack_rows])
@pytest.mark.parametrize("hybridize", [False, True])
def test_bert_at_some_tokens(arrange: Callable[..., Batch], hybridize: bool) -> None:
    one, two = _berts(hybridize)
    theirs, ours = torch_runtime.to_tensors(_batch(arrange)), runtime.to_tensors(_batch(arrange))
    places = np.array([31, 2, 0, 33, 2])  # one of them twice: its gradients add up
    expected = torch_run(one, lambda: [one.pool(one.forward_at(theirs, torch.from_numpy(places)))], [])
    assert_same(expected, mxnet_run(two, lambda: [two.pool(two.forward_at(ours, mxnet.nd.array(places)))], []))
    first = torch_bert.first_positions(theirs).numpy(), bert.first_positions(ours).asnumpy()
    assert first[0].tolist() == first[1].tolist()


@pytest.mark.parametrize("arrange", [pad, pack_rows])
@pytest.mark.parametrize("hybridize", [False, True])
def test_bert_pooled_alone(arrange: Callable[..., Batch], hybridize: bool) -> None:
    one, two = _berts(hybridize)
    theirs, ours = torch_runtime.to_tensors(_batch(arrange)), runtime.to_tensors(_batch(arrange))
    expected = torch_run(one, lambda: [one.forward_pooled(theirs)], [])
    assert_same(expected, mxnet_run(two, lambda: [two.forward_pooled(ours)], []))


@pytest.mark.parametrize("hybridize", [False, True])
def test_bert_without_segments_and_mask(hybridize: bool) -> None:
    one, two = _berts(hybridize)
    batch = _batch(pad)
    ids = batch.token_ids
    two(runtime.to_tensors(batch))  # a first call with a mask must not bind later ones
    expected = torch_run(one, lambda: _outputs(one(torch.from_numpy(ids))), [])
    # All segment ids are 0, all ids come from NumPy's default conversion to real numbers.
    assert_same(expected, mxnet_run(two, lambda: _outputs(two(mxnet.nd.array(ids))), []))


def test_too_long_a_row_is_the_same_error() -> None:
    one, two = _berts()
    with pytest.raises(UserError) as theirs:
        one(torch.zeros(1, 48, dtype=torch.long))
    with pytest.raises(UserError) as ours:
        two(mxnet.nd.zeros((1, 48)))
    assert str(theirs.value) == str(ours.value)


def test_pretrained_minilm_gives_the_same_vectors() -> None:
    one, tokenizer = d2lbert.get_model("minilm")
    two, twin = d2lbert.get_model("minilm", edition="mxnet")
    assert isinstance(two, bert.BertModel)
    assert tokenizer.vocab == twin.vocab
    batch = pad(tokenizer.encode_batch(["The bank of the river.", "A bank account", "Naïve façade, 3.50 €!"]))
    with torch.no_grad():
        expected = one(torch_runtime.to_tensors(batch), output_hidden_states=True)
    got = two(runtime.to_tensors(batch), output_hidden_states=True)
    for theirs, ours in zip(_outputs(expected), _outputs(got), strict=True):
        assert np.abs(theirs.numpy() - ours.asnumpy()).max() < 1e-5


def test_get_model_without_weights_starts_at_random() -> None:
    model, _ = d2lbert.get_model("minilm", edition="mxnet", pretrained=False)
    weight = model.encoder.blocks[0].attention.query.weight.data().asnumpy()
    assert weight.std() == pytest.approx(0.02, rel=0.05)
    assert not model.encoder.blocks[0].attention.query.bias.data().asnumpy().any()
    assert (model.embeddings.norm.gamma.data().asnumpy() == 1).all()


def test_saved_by_one_loads_in_the_other(tmp_path: Path) -> None:
    one, two = _berts()
    two.save_pretrained(tmp_path / "mxnet")
    one.save_pretrained(tmp_path / "torch")
    from_mxnet = torch_bert.BertModel.from_pretrained(tmp_path / "mxnet")
    from_torch = bert.BertModel.from_pretrained(tmp_path / "torch")
    assert from_mxnet.config == from_torch.config == one.config
    for name, value in one.state_dict().items():
        assert torch.equal(value, from_mxnet.state_dict()[name]), name
    expected, got = one.tensors(), from_torch.tensors()
    assert list(expected) == list(got)
    for name, array in expected.items():
        assert np.array_equal(array, got[name]), name
    files = [(tmp_path / edition / "model.safetensors").read_bytes() for edition in ("mxnet", "torch")]
    assert files[0] == files[1]


def test_weights_of_other_sizes_are_refused(tmp_path: Path) -> None:
    _, two = _berts()
    two.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="configuration and weights are not of one model"):
        bert.BertModel(small_config(intermediate_size=60)).load_tensors(two.tensors(), tmp_path)


@pytest.mark.parametrize("sizes", [{}, {"num_hidden_layers": 1, "hidden_size": 20}])
def test_parameter_counts(sizes: dict[str, int]) -> None:
    one, two = _berts(**sizes)
    assert encoder.count_parameters(two) == torch_encoder.count_parameters(one)
