"""RelativeEncoder equals transformers' XLNetModel: with a memory, in any order of tokens, forwards and backwards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from random_parameters import randomize
from torch import Tensor

from d2lbert.config.base import BlockSizes
from d2lbert.torch.transformer_xl import RelativeEncoder, order_masks, remember

transformers = pytest.importorskip("transformers")

SIZES = BlockSizes(24, 4, 40, activation="gelu", dropout=0.0, attention_dropout=0.0, layer_norm_eps=1e-12)
LAYERS, WORDS = 3, 50


def reference() -> Any:
    """An XLNet of transformers with random parameters."""
    config = transformers.XLNetConfig(
        vocab_size=WORDS, d_model=24, n_layer=LAYERS, n_head=4, d_inner=40, dropout=0.0, mem_len=7, attn_type="bi"
    )
    model = transformers.XLNetModel(config)
    randomize(model, seed=5)
    return model.eval()


def ours_of(model: Any) -> RelativeEncoder:
    """Our blocks with the parameters of an XLNet."""
    encoder = RelativeEncoder(SIZES, LAYERS)
    with torch.no_grad():
        for block, layer in zip(encoder.blocks, model.layer, strict=True):
            attention, theirs = block.attention, layer.rel_attn
            for name, wanted in (("query", "q"), ("key", "k"), ("value", "v"), ("distance", "r")):
                getattr(attention, name).weight.copy_(getattr(theirs, wanted).flatten(1).T)
            attention.output.weight.copy_(theirs.o.flatten(1))
            attention.content_bias.copy_(theirs.r_w_bias.unsqueeze(1))
            attention.distance_bias.copy_(theirs.r_r_bias.unsqueeze(1))
            block.attention_norm.load_state_dict(theirs.layer_norm.state_dict())
            block.feed_forward_norm.load_state_dict(layer.ff.layer_norm.state_dict())
            block.feed_forward.expand.load_state_dict(layer.ff.layer_1.state_dict())
            block.feed_forward.project.load_state_dict(layer.ff.layer_2.state_dict())
    return encoder.eval()


def ids(length: int, seed: int = 0) -> Tensor:
    return torch.randint(0, WORDS, (2, length), generator=torch.Generator().manual_seed(seed))


def test_all_tokens_at_once_and_gradients() -> None:
    theirs = reference()
    ours = ours_of(theirs)
    x = ids(9)
    wanted = theirs(x).last_hidden_state
    found = ours(theirs.word_embedding(x)).sequence
    assert torch.allclose(found, wanted, atol=1e-5)
    theirs.zero_grad()
    wanted.square().sum().backward()
    ours(theirs.word_embedding(x).detach()).sequence.square().sum().backward()
    for block, layer in zip(ours.blocks, theirs.layer, strict=True):
        gradient = layer.rel_attn.r.grad.flatten(1).T
        assert gradient.abs().max() > 1e-3
        assert torch.allclose(block.attention.distance.weight.grad, gradient, rtol=1e-3, atol=1e-4)
        assert torch.allclose(
            block.attention.distance_bias.grad[:, 0], layer.rel_attn.r_r_bias.grad, rtol=1e-3, atol=1e-4
        )


@torch.no_grad()
def test_three_segments_with_a_memory() -> None:
    """The memory holds seven tokens of what each block was given, and is cut at its beginning."""
    theirs = reference()
    ours = ours_of(theirs)
    their_memories, memories = None, None
    for seed in range(3):
        x = ids(5, seed)
        wanted = theirs(x, mems=their_memories, use_mems=True)
        found = ours(theirs.word_embedding(x), memories=memories)
        assert torch.allclose(found.sequence, wanted.last_hidden_state, atol=1e-5)
        their_memories = wanted.mems
        memories = remember(found.inputs, 7, memories)
        for kept, their_kept in zip(memories, their_memories, strict=True):
            assert torch.allclose(kept, their_kept.transpose(0, 1), atol=1e-5)
    assert memories[0].shape == (2, 7, 24)


@torch.no_grad()
@pytest.mark.parametrize("with_memory", [False, True])
def test_two_streams_in_an_order(with_memory: bool) -> None:
    """In transformers, who sees nothing looks at everything; without a memory this is the first of the order."""
    theirs = reference()
    ours = ours_of(theirs)
    order = [3, 0, 5, 1, 4, 2]
    sees, queries_see = order_masks(order)
    their_memories = memories = None
    if with_memory:
        before = ids(4, seed=9)
        their_memories = theirs(before, use_mems=True).mems
        memories = remember(ours(theirs.word_embedding(before)).inputs, 7)
    x = ids(6)
    hidden = (~queries_see).float().expand(2, -1, -1)  # transformers asks what must not be seen
    everywhere = torch.eye(6).expand(2, -1, -1)
    wanted = theirs(x, perm_mask=hidden, target_mapping=everywhere, mems=their_memories, use_mems=True)
    queries = theirs.mask_emb.expand(2, 6, -1)
    found = ours(theirs.word_embedding(x), sees, memories, queries, queries_see)
    assert found.queries is not None
    compared = order if with_memory else order[1:]
    assert torch.allclose(found.queries[:, compared], wanted.last_hidden_state[:, compared], atol=1e-5)
    content = theirs(x, perm_mask=hidden, mems=their_memories, use_mems=True).last_hidden_state
    assert torch.allclose(found.sequence, content, atol=1e-5)
