"""The decoder: one position at a time equals the whole, rows can be chosen, what LayerNorm before or after means."""

from __future__ import annotations

import pytest
import torch
from random_parameters import randomize
from torch import nn

from d2lbert.config.base import BlockSizes
from d2lbert.torch.attention import causal_mask
from d2lbert.torch.decoder import PreNormDecoderBlock, TransformerDecoder, TransformerDecoderBlock

B, L, M, D, H, LAYERS = 3, 5, 4, 12, 2, 2
KEPT = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [1, 1, 0, 1, 1]]).bool()  # what lies behind is not seen anyway
MEMORY_KEPT = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]).bool()


@pytest.fixture(params=[False, True], ids=["post-LN", "pre-LN"])
def decoder(request: pytest.FixtureRequest) -> TransformerDecoder:
    """Two blocks with random parameters, without dropout."""
    decoder = TransformerDecoder(BlockSizes(D, H, 20, norm_first=request.param), LAYERS)
    randomize(decoder, seed=1, standard_deviation=0.5)
    return decoder.eval()


@pytest.fixture
def x() -> torch.Tensor:
    """A target, (B, L, D)."""
    return torch.randn(B, L, D, generator=torch.Generator().manual_seed(2))


@pytest.fixture
def memory() -> torch.Tensor:
    """An encoder's output, (B, M, D)."""
    return torch.randn(B, M, D, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("cuts", [(1, 2, 3, 4), (2,), (3, 4)])
@torch.no_grad()
def test_steps_with_a_cache_equal_the_whole(
    decoder: TransformerDecoder, x: torch.Tensor, memory: torch.Tensor, cuts: tuple[int, ...]
) -> None:
    whole = decoder(x, decoder.start(memory), KEPT, MEMORY_KEPT).sequence
    caches, steps = decoder.start(memory), []
    for begin, end in zip((0, *cuts), (*cuts, L), strict=True):
        steps.append(decoder(x[:, begin:end], caches, KEPT[:, :end], MEMORY_KEPT).sequence)
        assert [cache.keys.shape for cache in caches] == [(B, H, end, D // H)] * LAYERS
    assert torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-5)


@torch.no_grad()
def test_rows_of_a_cache_can_be_chosen_and_doubled(
    decoder: TransformerDecoder, x: torch.Tensor, memory: torch.Tensor
) -> None:
    """As a beam search does between two steps."""
    rows = torch.tensor([2, 0, 2, 2])
    caches = decoder.start(memory)
    decoder(x[:, :3], caches)
    for cache in caches:
        cache.select(rows)
    chosen = decoder(x[rows, 3:], caches, memory_mask=MEMORY_KEPT[rows]).sequence
    caches = decoder.start(memory[rows])
    decoder(x[rows, :3], caches)
    assert torch.allclose(chosen, decoder(x[rows, 3:], caches, memory_mask=MEMORY_KEPT[rows]).sequence, atol=1e-5)


@torch.no_grad()
def test_what_is_padding_or_comes_later_changes_nothing(
    decoder: TransformerDecoder, x: torch.Tensor, memory: torch.Tensor
) -> None:
    before = decoder(x, decoder.start(memory), KEPT, MEMORY_KEPT).sequence
    other = torch.where(MEMORY_KEPT.unsqueeze(-1), memory, 9.0)
    hidden = torch.where(KEPT.unsqueeze(-1), x, 9.0)
    assert torch.allclose(decoder(hidden, decoder.start(other), KEPT, MEMORY_KEPT).sequence[KEPT], before[KEPT])
    later = x.clone()
    later[:, 3, 0] += 1  # one number: LayerNorm does not see what is added to all
    after = decoder(later, decoder.start(memory)).sequence
    plain = decoder(x, decoder.start(memory)).sequence
    assert torch.allclose(after[:, :3], plain[:, :3], atol=1e-6)
    assert (after[:, 3:] - plain[:, 3:]).abs().amax(dim=-1).min() > 1e-3


@torch.no_grad()
def test_weights_come_on_request_and_reach_back_to_the_first_position(
    decoder: TransformerDecoder, x: torch.Tensor, memory: torch.Tensor
) -> None:
    caches = decoder.start(memory)
    first = decoder(x[:, :3], caches)
    assert (first.attentions, first.cross_attentions) == (None, None)
    output = decoder(x[:, 3:], caches, KEPT, MEMORY_KEPT, output_attentions=True)
    assert [weights.shape for weights in output.attentions] == [(B, H, 2, L)] * LAYERS
    assert [weights.shape for weights in output.cross_attentions] == [(B, H, 2, M)] * LAYERS
    for weights in (*output.attentions, *output.cross_attentions):
        assert torch.allclose(weights.sum(-1), torch.ones(B, H, 2))
    assert not output.attentions[0][:, :, 0, 4].any()  # position 3 does not see position 4
    assert not output.cross_attentions[0][1, :, :, 2:].any()


@torch.no_grad()
def test_sublayers_that_add_nothing_leave_what_layer_norm_makes(x: torch.Tensor, memory: torch.Tensor) -> None:
    """Post-LN normalises the sum after each sublayer; pre-LN lets x through, and the stack normalises at its end."""
    sees = causal_mask(L)
    for block_class in (TransformerDecoderBlock, PreNormDecoderBlock):
        block = block_class(BlockSizes(D, H, 20)).eval()
        for layer in (block.attention.output, block.cross_attention.output, block.feed_forward.project):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)
        norms = (block.attention_norm, block.cross_attention_norm, block.feed_forward_norm)
        for seed, norm in enumerate(norms):
            randomize(norm, seed, standard_deviation=0.5)
        output, _, _ = block(x, block.start(memory), sees)
        expected = x if block_class is PreNormDecoderBlock else norms[2](norms[1](norms[0](x)))
        assert torch.allclose(output, expected, atol=1e-5)


def test_the_stack_has_a_last_layer_norm_where_its_blocks_have_none() -> None:
    for norm_first, block, norm in (
        (False, TransformerDecoderBlock, nn.Identity),
        (True, PreNormDecoderBlock, nn.LayerNorm),
    ):
        stack = TransformerDecoder(BlockSizes(D, H, 20, layer_norm_eps=0.25, norm_first=norm_first), 3)
        assert [type(one) for one in stack.blocks] == [block] * 3
        assert type(stack.norm) is norm
        norms = [module for module in stack.modules() if isinstance(module, nn.LayerNorm)]
        assert len(norms) == 3 * 3 + norm_first
        assert {one.eps for one in norms} == {0.25}


def test_dropout_is_on_what_each_sublayer_adds(x: torch.Tensor, memory: torch.Tensor) -> None:
    """With all of it dropped, nothing is added."""
    block = PreNormDecoderBlock(BlockSizes(D, H, 20, dropout=1.0, attention_dropout=0.0)).train()
    assert torch.equal(block(x, block.start(memory), causal_mask(L))[0], x)
