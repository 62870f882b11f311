"""Attention and the encoder equal those of the package d2l 1.0.3 (Dive into Deep Learning): outputs and gradients."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from random_parameters import randomize
from torch import Tensor, nn

from d2lbert.config import Seq2SeqConfig, TransformerConfig
from d2lbert.config.base import BlockSizes
from d2lbert.torch.attention import (
    AdditiveAttention,
    DotProductAttention,
    MultiHeadAttention,
    masked_softmax,
)
from d2lbert.torch.encoder import SinusoidalPositions, TransformerEncoder, TransformerEncoderBlock
from d2lbert.torch.seq2seq import Seq2Seq
from d2lbert.torch.transformer import Transformer

B, L, M, D, H, F = 3, 7, 5, 12, 4, 20


class _Placeholder(ModuleType):
    """Stands for a module that d2l imports for its chapters on images; whatever is asked of it is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


@pytest.fixture(scope="module")
def d2l() -> Iterator[Any]:
    """The PyTorch implementations of d2l."""
    if importlib.util.find_spec("d2l") is None:
        pytest.skip("d2l is not installed: run pip install --no-deps -r requirements/mxnet.txt")
    with pytest.MonkeyPatch.context() as patch:
        if importlib.util.find_spec("torchvision") is None:
            for name in ("torchvision", "torchvision.transforms"):
                patch.setitem(sys.modules, name, _Placeholder(name))
        yield pytest.importorskip("d2l.torch", reason="a package that d2l imports is missing", exc_type=ImportError)


def _valid_lengths(kind: str) -> Tensor | None:
    """d2l counts how many keys are kept, from the left: of a text (B,) or for every query (B, L)."""
    if kind == "none":
        return None
    generator = torch.Generator().manual_seed(3)
    shape = (B,) if kind == "per text" else (B, L)
    return torch.randint(1, M + 1, shape, generator=generator)


def _mask(valid_lengths: Tensor | None, memory: int = M) -> Tensor | None:
    """The same as a mask, (B, M) or (B, L, M)."""
    return None if valid_lengths is None else torch.arange(memory) < valid_lengths.unsqueeze(-1)


def _copy(theirs: nn.Module, ours: nn.Module, names: dict[str, str]) -> None:
    """Give both the same random parameters; ``names`` maps the beginning of our names to that of theirs."""
    randomize(ours, seed=2)
    state = {}
    for name, value in ours.state_dict().items():
        module, _, kind = name.rpartition(".")
        state[f"{names[module]}.{kind}"] = value
    theirs.load_state_dict(state)
    theirs.eval()
    ours.eval()


def _assert_same(theirs: Callable[..., Tensor], ours: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    """Outputs, and the gradients of a random mixture of them, within 1e-5."""
    for tensor in inputs:
        tensor.requires_grad_()
    expected, got = theirs(*inputs), ours(*inputs)
    assert expected.shape == got.shape
    assert (expected - got).abs().max() < 1e-5
    direction = torch.randn_like(got)
    direction /= direction.norm()
    one, two = (torch.autograd.grad((output * direction).sum(), inputs) for output in (expected, got))
    for index, (a, b) in enumerate(zip(one, two, strict=True)):
        assert (a - b).abs().max() < 1e-5, f"input {index}"
        assert a.abs().max() > 1e-6


_ATTENTION = {"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"}
_BLOCK = {
    **{f"attention.{ours}": f"attention.{theirs}" for ours, theirs in _ATTENTION.items()},
    "attention_norm": "addnorm1.ln",
    "feed_forward.expand": "ffn.dense1",
    "feed_forward.project": "ffn.dense2",
    "feed_forward_norm": "addnorm2.ln",
}

kinds = pytest.mark.parametrize("kind", ["none", "per text", "per query"])


@kinds
def test_masked_softmax(d2l: Any, kind: str) -> None:
    torch.manual_seed(0)
    scores, lengths = torch.randn(B, L, M), _valid_lengths(kind)
    # d2l writes into its argument: it gets a copy.
    _assert_same(
        lambda x: d2l.masked_softmax(x.clone(), lengths), lambda x: masked_softmax(x, _keep(lengths)), [scores]
    )


def _keep(lengths: Tensor | None) -> Tensor | None:
    mask = _mask(lengths)
    return mask.unsqueeze(1) if mask is not None and mask.dim() == 2 else mask


@kinds
def test_dot_product_attention(d2l: Any, kind: str) -> None:
    torch.manual_seed(1)
    lengths, theirs, ours = _valid_lengths(kind), d2l.DotProductAttention(0.0), DotProductAttention()
    inputs = [torch.randn(B, L, D), torch.randn(B, M, D), torch.randn(B, M, 9)]
    _assert_same(lambda q, k, v: theirs(q, k, v, lengths), lambda q, k, v: ours(q, k, v, _mask(lengths))[0], inputs)
    weights = ours(*inputs, _mask(lengths))[1]
    assert (theirs.attention_weights - weights).abs().max() < 1e-5


@kinds
def test_additive_attention(d2l: Any, kind: str) -> None:
    torch.manual_seed(2)
    lengths, theirs, ours = _valid_lengths(kind), d2l.AdditiveAttention(8, 0.0), AdditiveAttention(6, 11, 8)
    inputs = [torch.randn(B, L, 6), torch.randn(B, M, 11), torch.randn(B, M, 9)]
    theirs(*inputs, lengths)  # lazy layers learn their sizes
    _copy(theirs, ours, {"query": "W_q", "key": "W_k", "score": "w_v"})
    _assert_same(lambda q, k, v: theirs(q, k, v, lengths), lambda q, k, v: ours(q, k, v, _mask(lengths))[0], inputs)


@kinds
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(d2l: Any, kind: str, bias: bool, need_weights: bool) -> None:
    torch.manual_seed(3)
    lengths, theirs = _valid_lengths(kind), d2l.MultiHeadAttention(D, H, 0.0, bias)
    ours = MultiHeadAttention(D, H, bias=bias, key_size=11, value_size=9)
    inputs = [torch.randn(B, L, D), torch.randn(B, M, 11), torch.randn(B, M, 9)]
    theirs(*inputs, lengths)
    _copy(theirs, ours, _ATTENTION)
    _assert_same(
        lambda q, k, v: theirs(q, k, v, lengths),
        lambda q, k, v: ours(q, k, v, _mask(lengths), need_weights)[0],
        inputs,
    )


def test_positional_encoding(d2l: Any) -> None:
    torch.manual_seed(4)
    theirs, ours = d2l.PositionalEncoding(D, 0.0, max_len=60), SinusoidalPositions(D, 60)
    _assert_same(theirs, ours, [torch.randn(B, 60, D)])


@pytest.mark.parametrize("kind", ["none", "per text"])
@pytest.mark.parametrize("layers", [1, 3])
def test_encoder_blocks(d2l: Any, kind: str, layers: int) -> None:
    torch.manual_seed(5)
    x, lengths = torch.randn(B, L, D), _valid_lengths(kind)
    theirs = nn.ModuleList(d2l.TransformerEncoderBlock(D, F, H, 0.0, use_bias=True) for _ in range(layers))
    ours = TransformerEncoder(BlockSizes(D, H, F), layers)
    for reference, block in zip(theirs, ours.blocks, strict=True):
        reference(x, lengths)
        assert isinstance(block, TransformerEncoderBlock)
        _copy(reference, block, _BLOCK)

    def stack(hidden: Tensor) -> Tensor:
        for reference in theirs:
            hidden = reference(hidden, lengths)
        return hidden

    _assert_same(stack, lambda hidden: ours(hidden, _mask(lengths, L)).sequence, [x])


@pytest.mark.parametrize("kind", ["none", "per text"])
def test_encoder_with_embeddings(d2l: Any, kind: str) -> None:
    """d2l keeps its decoder in the book's text; its encoder with scaled embeddings and positions is in the package."""
    torch.manual_seed(6)
    ids, lengths = torch.randint(0, 31, (B, L)), _valid_lengths(kind)
    theirs = d2l.TransformerEncoder(31, D, F, H, 2, 0.0, use_bias=True)
    config = TransformerConfig(31, 31, D, num_encoder_layers=2, num_attention_heads=H, intermediate_size=F)
    ours = Transformer(config).eval()
    for reference, block in zip(theirs.blks, ours.encoder.blocks, strict=True):
        reference(torch.randn(B, L, D), lengths)
        _copy(reference, block, _BLOCK)
    theirs.embedding.weight = ours.source_embedding.weight
    mask = _mask(lengths, L)
    expected, got = theirs.eval()(ids, lengths), ours.encode(ids, mask).sequence
    assert (expected - got).abs().max() < 1e-5
    direction = torch.randn_like(got) / got.numel() ** 0.5
    one, two = (torch.autograd.grad((x * direction).sum(), theirs.embedding.weight)[0] for x in (expected, got))
    assert (one - two).abs().max() < 1e-5
    assert one.abs().max() > 1e-4


@pytest.mark.parametrize("layers", [1, 2])
def test_recurrent_encoder(d2l: Any, layers: int) -> None:
    """d2l's encoder does not know where a text ends, so no text is padded here."""
    torch.manual_seed(7)
    ids = torch.randint(0, 31, (B, L))
    sizes = {"hidden_size": D, "embedding_size": 8, "num_hidden_layers": layers, "bidirectional": False}
    ours = Seq2Seq(Seq2SeqConfig(31, 31, **sizes)).eval()
    randomize(ours)
    theirs = d2l.Seq2SeqEncoder(31, 8, D, layers).eval()
    theirs.embedding.weight = ours.source_embedding.weight
    theirs.rnn.rnn.load_state_dict(ours.encoder.state_dict())
    memory, last = theirs(ids)
    state = ours.start(ids)
    assert (memory.transpose(0, 1) - state.memory).abs().max() < 1e-5
    assert (last - state.hidden[0]).abs().max() < 1e-5
    assert memory.abs().max() > 1e-2
