"""The parity test of GPT catches the known bugs: each is injected, and the comparison must fail."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from gpt_support import compare_gpt, reference_and_ours, small_gpt_config
from parity_support import random_batch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.torch import gpt
from d2lbert.torch.attention import DotProductAttention
from d2lbert.torch.encoder import TransformerEncoderBlock
from d2lbert.torch.gpt import Gpt
from d2lbert.weights import gpt as weights_gpt

pytest.importorskip("transformers")

TOLERANCE = 1e-5


class _Unscaled(DotProductAttention):
    def forward(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return super().forward(queries * math.sqrt(queries.shape[-1]), keys, values, mask)


def missing_scale(model: Gpt) -> None:
    for block in model.encoder.blocks:
        block.attention.attention = _Unscaled()


def erf_gelu_for_tanh(model: Gpt) -> None:
    for block in model.encoder.blocks:
        block.feed_forward.activation = "gelu"


def post_norm_for_pre_norm(model: Gpt) -> None:
    for block in model.encoder.blocks:
        block.__class__ = TransformerEncoderBlock


def last_norm_missing(model: Gpt) -> None:
    model.encoder.norm = nn.Identity()


def epsilon_of_bert(model: Gpt) -> None:
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-12


def positions_start_at_one(model: Gpt) -> None:
    table = model.embeddings.position.weight
    table.data = table.data.roll(-1, dims=0)


def projection_not_transposed(model: Gpt) -> None:
    weight = model.encoder.blocks[1].attention.output.weight
    weight.data = weight.data.T.contiguous()


def keys_and_values_swapped(model: Gpt) -> None:
    layer = model.encoder.blocks[0].attention
    layer.key, layer.value = layer.value, layer.key


def norms_swapped(model: Gpt) -> None:
    block = model.encoder.blocks[1]
    block.attention_norm, block.feed_forward_norm = block.feed_forward_norm, block.attention_norm


def query_bias_missing(model: Gpt) -> None:
    with torch.no_grad():
        model.encoder.blocks[1].attention.query.bias.zero_()


MODEL_BUGS = [
    missing_scale,
    erf_gelu_for_tanh,
    post_norm_for_pre_norm,
    last_norm_missing,
    epsilon_of_bert,
    positions_start_at_one,
    projection_not_transposed,
    keys_and_values_swapped,
    norms_swapped,
    query_bias_missing,
]


def _largest_difference(bug: Callable[[Gpt], None] | None = None) -> float:
    reference, ours = reference_and_ours(small_gpt_config())
    if bug is not None:
        bug(ours)
    return max(compare_gpt(reference, ours, random_batch()).values())


def test_without_a_bug_parity_holds() -> None:
    assert _largest_difference() < TOLERANCE


@pytest.mark.parametrize("bug", MODEL_BUGS, ids=lambda bug: bug.__name__)
def test_bug_is_caught(bug: Callable[[Gpt], None]) -> None:
    assert _largest_difference(bug) > TOLERANCE


def _sees_one_later(length: int, device: torch.device | None = None) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril(1)


def _sees_one_less(length: int, device: torch.device | None = None) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool, device=device).tril(-1)


def _sees_all(length: int, device: torch.device | None = None) -> Tensor:
    return torch.ones(1, length, length, dtype=torch.bool, device=device)


@pytest.mark.parametrize("mask", [_sees_one_later, _sees_one_less, _sees_all])
def test_wrong_causal_mask_is_caught(monkeypatch: pytest.MonkeyPatch, mask: Callable[..., Tensor]) -> None:
    monkeypatch.setattr(gpt, "causal_mask", mask)
    # Written so that "not a number" counts as caught.
    assert not _largest_difference() < TOLERANCE


def test_padding_that_is_seen_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding on the right is never seen by a causal model; it is the padding on the left that must be masked."""
    _, ours = reference_and_ours(small_gpt_config())
    prompt = [5, 6, 7]
    alone = ours.generate([prompt], max_length=1)[0].score
    monkeypatch.setattr(gpt, "_keep", lambda sees, mask: sees)
    assert abs(ours.generate([[8] * 9, prompt], max_length=1)[1].score - alone) > TOLERANCE


def test_an_output_layer_of_its_own_is_caught() -> None:
    """Untied: the logits come out the same, the gradient of the word embeddings does not."""

    class Untied(Gpt):
        def _score(self, states: Tensor) -> Tensor:
            return functional.linear(states, self.embeddings.word.weight.detach())

    reference, _ = reference_and_ours(small_gpt_config())
    ours = Untied(small_gpt_config()).eval()
    ours.load_tensors({name: value.numpy() for name, value in reference.state_dict().items()}, "the reference")
    differences = compare_gpt(reference, ours, random_batch())
    assert differences["logits"] < TOLERANCE
    assert differences["word gradient"] > TOLERANCE


def test_queries_keys_and_values_in_another_order_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    order = ("attention.key", "attention.query", "attention.value")
    monkeypatch.setattr(weights_gpt, "_QKV", order)
    assert _largest_difference() > TOLERANCE
