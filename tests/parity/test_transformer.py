"""The whole Transformer equals torch.nn.Transformer under random parameters; injected bugs do not pass.

torch.nn has no embeddings and ends both stacks in a LayerNorm. So the comparison runs its stacks on our embeddings, and
in post-LN, where we have no last LayerNorm, without its own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from random_parameters import randomize
from torch import Tensor, nn
from transformer_sizes import transformer_config

from d2lbert.config import TransformerConfig
from d2lbert.torch import attention, decoder
from d2lbert.torch.transformer import Transformer

B, M, L, TOLERANCE = 4, 9, 7, 1e-5


def small_config(**changes: Any) -> TransformerConfig:
    """Every dimension has another size."""
    return transformer_config(
        (53, 61, 24, 2, 3, 4, 40, 31), **{"share_embeddings": False, "tie_word_embeddings": False, **changes}
    )


def batch() -> dict[str, Tensor]:
    """Ids of sources and targets, both of unequal length."""
    generator = torch.Generator().manual_seed(7)
    rows = torch.arange(B).unsqueeze(1)
    return {
        "source_ids": torch.randint(3, 53, (B, M), generator=generator),
        "target_ids": torch.randint(3, 61, (B, L), generator=generator),
        "source_mask": (torch.arange(M) < M - 2 * rows).long(),
        "target_mask": (torch.arange(L) < L - rows).long(),
    }


def _reference(config: TransformerConfig) -> nn.Transformer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pre-LN has no nested tensors, says torch
        reference = _build(config)
    if not config.norm_first:
        reference.encoder.norm = reference.decoder.norm = None
    randomize(reference, seed=3)
    return reference


def _build(config: TransformerConfig) -> nn.Transformer:
    return nn.Transformer(
        config.hidden_size,
        config.num_attention_heads,
        config.num_encoder_layers,
        config.num_decoder_layers,
        config.intermediate_size,
        dropout=0.0,
        activation=config.hidden_act,
        layer_norm_eps=config.layer_norm_eps,
        batch_first=True,
        norm_first=config.norm_first,
    )


def _copy_attention(reference: nn.MultiheadAttention, ours: attention.MultiHeadAttention) -> None:
    for index, name in enumerate(("query", "key", "value")):
        linear = getattr(ours, name)
        linear.weight.data = reference.in_proj_weight.data.chunk(3)[index].clone()
        linear.bias.data = reference.in_proj_bias.data.chunk(3)[index].clone()
    ours.output.load_state_dict(reference.out_proj.state_dict())


def _copy_block(reference: Any, ours: Any) -> None:
    _copy_attention(reference.self_attn, ours.attention)
    norms = [ours.attention_norm, ours.feed_forward_norm]
    if hasattr(ours, "cross_attention"):
        _copy_attention(reference.multihead_attn, ours.cross_attention)
        norms.insert(1, ours.cross_attention_norm)
    for number, norm in enumerate(norms, start=1):
        norm.load_state_dict(getattr(reference, f"norm{number}").state_dict())
    ours.feed_forward.expand.load_state_dict(reference.linear1.state_dict())
    ours.feed_forward.project.load_state_dict(reference.linear2.state_dict())


def reference_and_ours(**changes: Any) -> tuple[nn.Transformer, Transformer]:
    """A torch.nn.Transformer and ours with the same random parameters."""
    config = small_config(hidden_dropout_prob=0.0, **changes)
    reference, ours = _reference(config), Transformer(config)
    randomize(ours, seed=4)
    for theirs, stack in ((reference.encoder, ours.encoder), (reference.decoder, ours.decoder)):
        for layer, block in zip(theirs.layers, stack.blocks, strict=True):
            _copy_block(layer, block)
        if theirs.norm is not None:
            stack.norm.load_state_dict(theirs.norm.state_dict())
    return reference, ours  # in training mode, without dropout: torch.nn's fast path for inference needs no test


def _embed(ours: Transformer, embedding: nn.Embedding, ids: Tensor) -> Tensor:
    """Embeddings by the formulas of the paper, one number at a time."""
    size = ours.config.hidden_size
    waves = torch.empty(ids.shape[1], size)
    for position in range(ids.shape[1]):
        for column in range(size):
            angle = position / 10000 ** (2 * (column // 2) / size)
            waves[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
    return embedding.weight[ids] * math.sqrt(size) + waves


def compare(reference: nn.Transformer, ours: Transformer) -> dict[str, float]:
    """The largest differences of memory, decoder, logits and of gradients, over real tokens."""
    inputs = batch()
    kept, target_kept = inputs["source_mask"].bool(), inputs["target_mask"].bool()
    source = _embed(ours, ours.source_embedding, inputs["source_ids"])
    target = _embed(ours, ours.target_embedding, inputs["target_ids"])
    memory = reference.encoder(source, src_key_padding_mask=~kept)
    causal = torch.ones(L, L, dtype=torch.bool).triu(1)
    decoded = reference.decoder(
        target, memory, tgt_mask=causal, tgt_key_padding_mask=~target_kept, memory_key_padding_mask=~kept
    )
    logits = decoded @ ours.output.weight.T
    got = ours(**inputs)
    weighted = ours(**inputs, output_attentions=True)
    differences = {
        "memory": memory[kept] - got.encoder.sequence[kept],
        "decoder": decoded[target_kept] - got.decoder.sequence[target_kept],
        "logits": logits[target_kept] - got.logits[target_kept],
        "with weights": logits[target_kept] - weighted.logits[target_kept],
    }
    direction = torch.randn(logits[target_kept].shape, generator=torch.Generator().manual_seed(1))
    direction /= direction.norm()
    tables = [ours.source_embedding.weight, ours.target_embedding.weight, ours.output.weight]
    expected, actual = (torch.autograd.grad((x[target_kept] * direction).sum(), tables) for x in (logits, got.logits))
    for name, a, b in zip(("source gradient", "target gradient", "output gradient"), expected, actual, strict=True):
        assert a.abs().max() > 1e-4
        differences[name] = a - b
    return {name: float(difference.detach().abs().max()) for name, difference in differences.items()}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_all_outputs_and_gradients_are_equal(norm_first: bool, activation: str) -> None:
    differences = compare(*reference_and_ours(norm_first=norm_first, hidden_act=activation))
    assert len(differences) == 7
    assert max(differences.values()) < TOLERANCE, differences


def test_attention_weights_are_those_of_torch() -> None:
    reference, ours = reference_and_ours()
    inputs = batch()
    x = torch.randn(B, L, 24)
    memory = torch.randn(B, M, 24)
    block = ours.decoder.blocks[0]
    kept = inputs["source_mask"].bool()
    sees = attention.causal_mask(L) & inputs["target_mask"].bool().unsqueeze(1)
    _, weights, cross = block(x, block.start(memory), sees, kept, need_weights=True)
    layer = reference.decoder.layers[0]
    options = {"average_attn_weights": False, "need_weights": True}
    expected = layer.self_attn(x, x, x, attn_mask=~sees.repeat_interleave(4, 0), **options)[1]
    assert (expected - weights).abs().max() < TOLERANCE
    queries = layer.norm1(x + layer.self_attn(x, x, x, attn_mask=~sees.repeat_interleave(4, 0))[0])
    expected = layer.multihead_attn(queries, memory, memory, key_padding_mask=~kept, **options)[1]
    assert (expected - cross).abs().max() < TOLERANCE


def _replace_forward(module: nn.Module, forward: Callable[..., object]) -> None:
    module.forward = forward  # type: ignore[method-assign]


def pre_norm_for_post_norm(model: Transformer) -> None:
    for block in model.decoder.blocks:
        block.__class__ = decoder.PreNormDecoderBlock


def source_mask_inverted(model: Transformer) -> None:
    forward = model.decoder.forward
    _replace_forward(model.decoder, lambda x, caches, mask, memory, *rest: forward(x, caches, mask, ~memory, *rest))


def source_mask_ignored_by_the_decoder(model: Transformer) -> None:
    forward = model.decoder.forward
    _replace_forward(model.decoder, lambda x, caches, mask, memory, *rest: forward(x, caches, mask, None, *rest))


def target_mask_inverted(model: Transformer) -> None:
    forward = model.decoder.forward
    _replace_forward(model.decoder, lambda x, caches, mask, *rest: forward(x, caches, ~mask, *rest))


def scale_of_embeddings_missing(model: Transformer) -> None:
    forward = model.positions.forward
    _replace_forward(model.positions, lambda x, first: forward(x / math.sqrt(24), first))


def exponent_of_positions_doubled(model: Transformer) -> None:
    """A misprint seen on slides: 10000^(2 (2j) / D)."""
    positions = torch.arange(31).unsqueeze(1)
    angles = positions / 10000 ** (2 * torch.arange(0, 24, 2) / 24)
    model.positions.table[:, 0::2], model.positions.table[:, 1::2] = angles.sin(), angles.cos()


def positions_start_at_one(model: Transformer) -> None:
    forward = model.positions.forward
    _replace_forward(model.positions, lambda x, first: forward(x, first + 1))


def attentions_swapped(model: Transformer) -> None:
    block = model.decoder.blocks[1]
    block.attention, block.cross_attention = block.cross_attention, block.attention


def norms_swapped(model: Transformer) -> None:
    block = model.decoder.blocks[1]
    block.attention_norm, block.cross_attention_norm = block.cross_attention_norm, block.attention_norm


def cross_value_bias_missing(model: Transformer) -> None:
    nn.init.zeros_(model.decoder.blocks[2].cross_attention.value.bias)


def decoder_blocks_reversed(model: Transformer) -> None:
    model.decoder.blocks = nn.ModuleList(reversed(list(model.decoder.blocks)))


def residual_around_cross_attention_missing(model: Transformer) -> None:
    layer = model.decoder.blocks[0].cross_attention
    attend = layer.attend
    layer.attend = lambda q, *rest: (attend(q, *rest)[0] - q, None)


BUGS = [
    pre_norm_for_post_norm,
    source_mask_inverted,
    source_mask_ignored_by_the_decoder,
    target_mask_inverted,
    scale_of_embeddings_missing,
    exponent_of_positions_doubled,
    positions_start_at_one,
    attentions_swapped,
    norms_swapped,
    cross_value_bias_missing,
    decoder_blocks_reversed,
    residual_around_cross_attention_missing,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_bug_is_caught(bug: Callable[[Transformer], None]) -> None:
    reference, ours = reference_and_ours()
    bug(ours)
    assert max(compare(reference, ours).values()) > TOLERANCE


def _sees_one_ahead(length: int, device: Any = None) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril(1)


def _sees_everything(length: int, device: Any = None) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool, device=device)


def _sees_the_past_alone(length: int, device: Any = None) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril(-1)


@pytest.mark.parametrize("bug", [_sees_one_ahead, _sees_everything, _sees_the_past_alone])
def test_wrong_causal_mask_is_caught(monkeypatch: pytest.MonkeyPatch, bug: Callable[..., Tensor]) -> None:
    monkeypatch.setattr(decoder, "causal_mask", bug)
    assert max(compare(*reference_and_ours()).values()) > TOLERANCE
