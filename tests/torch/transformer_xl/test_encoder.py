"""A memory against reading everything at once; how far it reaches; orders by hand."""

from __future__ import annotations

import pytest
import torch

from d2lbert.config.base import BlockSizes
from d2lbert.torch.attention import causal_mask
from d2lbert.torch.transformer_xl import RelativeEncoder, SegmentOutput, order_masks, remember

SIZES = BlockSizes(16, 2, 24, activation="gelu", dropout=0.0, attention_dropout=0.0)


def encoder_of(layers: int) -> RelativeEncoder:
    torch.manual_seed(0)
    encoder = RelativeEncoder(SIZES, layers)
    for block in encoder.blocks:
        torch.nn.init.normal_(block.attention.content_bias)
        torch.nn.init.normal_(block.attention.distance_bias)
    return encoder.eval()


def read(encoder: RelativeEncoder, x: torch.Tensor, length: int, kept: int) -> list[SegmentOutput]:
    """Read a text segment by segment, each token from the left, with a memory."""
    memories, found = None, []
    for begin in range(0, x.shape[1], length):
        found.append(encoder(x[:, begin : begin + length], causal_mask(length, x.device)[0], memories))
        memories = remember(found[-1].inputs, kept, memories)
    return found


@torch.no_grad()
def test_a_memory_of_everything_equals_reading_at_once() -> None:
    encoder, x = encoder_of(3), torch.randn(2, 12, 16)
    whole = encoder(x, causal_mask(12, x.device)[0]).sequence
    parts = read(encoder, x, length=4, kept=100)
    assert torch.allclose(torch.cat([part.sequence for part in parts], 1), whole, atol=1e-5)
    assert not torch.allclose(parts[1].sequence, encoder(x[:, 4:8], causal_mask(4, x.device)[0]).sequence, atol=1e-2)


@torch.no_grad()
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_every_block_reaches_a_memory_further(layers: int) -> None:
    """The last token sees T tokens back in each block, and no more."""
    encoder, x, kept = encoder_of(layers), torch.randn(1, 24, 16), 3
    last = read(encoder, x, length=1, kept=kept)[-1].sequence
    changed = []
    for place in range(24):
        other = x.clone()
        other[0, place] += 1
        changed.append(not torch.equal(read(encoder, other, length=1, kept=kept)[-1].sequence, last))
    assert changed == [place >= 23 - layers * kept for place in range(24)]


def test_no_gradient_goes_into_the_memory() -> None:
    encoder = encoder_of(2)
    first = torch.randn(1, 4, 16, requires_grad=True)
    memories = remember(encoder(first).inputs, 3)
    assert [tuple(memory.shape) for memory in memories] == [(1, 3, 16)] * 2
    second = torch.randn(1, 4, 16, requires_grad=True)
    encoder(second, memories=memories).sequence.sum().backward()
    assert first.grad is None
    assert second.grad is not None


def test_an_order_by_hand() -> None:
    """Place 2 comes first, then 0, then 1."""
    sees, queries_see = order_masks([2, 0, 1])
    assert sees.int().tolist() == [[1, 0, 1], [1, 1, 1], [0, 0, 1]]
    assert queries_see.int().tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]
    from_the_left, _ = order_masks([0, 1, 2])
    assert torch.equal(from_the_left, causal_mask(3, torch.device("cpu"))[0])


@torch.no_grad()
def test_a_query_does_not_see_its_token_and_nothing_sees_a_query() -> None:
    encoder, x = encoder_of(2), torch.randn(1, 3, 16)
    sees, queries_see = order_masks([2, 0, 1])
    queries = torch.randn(1, 1, 16).expand(1, 3, 16)
    found = encoder(x, sees, queries=queries, queries_see=queries_see)
    for place in range(3):
        other = x.clone()
        other[0, place] += 1
        changed = encoder(other, sees, queries=queries, queries_see=queries_see)
        moved = (changed.queries - found.queries).abs().amax(-1)[0] > 0
        assert moved.tolist() == queries_see[:, place].tolist()
    alone = encoder(x, sees)
    assert alone.queries is None
    assert torch.equal(alone.sequence, found.sequence)


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ValueError, match="LayerNorm after each part"):
        RelativeEncoder(BlockSizes(8, 2, 8, norm_first=True), 1)
    with pytest.raises(ValueError, match="no order of the places 0 to 2"):
        order_masks([0, 2, 2])
