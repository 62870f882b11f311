"""GPT in MXNet equals GPT in PyTorch: outputs, gradients of every parameter, continuations and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gpt_support import small_gpt_config
from parity_support import BatchOfIds

from d2lbert import UserError
from d2lbert.config import Sampling
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.torch import gpt as torch_gpt
from d2lbert.torch import runtime as torch_runtime
from d2lbert.torch.generation import next_token_distribution as torch_distribution

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run

from d2lbert.mxnet import gpt, runtime
from d2lbert.mxnet.generation import next_token_distribution


def _pair(hybridize: bool = False, **changes: Any) -> tuple[torch_gpt.Gpt, Any]:
    config = small_gpt_config(**changes)
    one, two = torch_gpt.Gpt(config), gpt.Gpt(config)
    same_random_parameters(one, two)
    if hybridize:
        two.hybridize()
    return one.eval(), two


def _outputs(output: Any) -> list[Any]:
    return [output.logits, output.sequence, *output.hidden_states, *output.attentions]


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_new"])
@pytest.mark.parametrize("arrange", [pad, pack])
@pytest.mark.parametrize("hybridize", [False, True])
def test_gpt(activation: str, arrange: Callable[..., Batch], hybridize: bool) -> None:
    one, two = _pair(hybridize, activation_function=activation)
    generator = np.random.default_rng(3)
    batch = arrange([BatchOfIds.encoding(generator, length) for length in (5, 17, 3, 30, 11)])
    theirs, ours = torch_runtime.to_tensors(batch), runtime.to_tensors(batch)
    flags = {"output_hidden_states": True, "output_attentions": True}
    expected = torch_run(one, lambda: _outputs(one(theirs, **flags)), [])
    assert_same(expected, mxnet_run(two, lambda: _outputs(two(ours, **flags)), []))
    assert len(expected[0]) == 2 + 4 + 3


def test_it_starts_as_the_other_does() -> None:
    config = small_gpt_config(n_embd=128, n_inner=256, n_layer=2)
    block = gpt.Gpt(config).encoder.blocks[1]
    assert block.attention.query.weight.data().asnumpy().std() == pytest.approx(0.02, rel=0.05)
    for weight in (block.attention.output.weight, block.feed_forward.project.weight):
        assert weight.data().asnumpy().std() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("arrange", [pad, pack])
def test_scores_at_some_places(arrange: Callable[..., Batch]) -> None:
    one, two = _pair()
    generator = np.random.default_rng(4)
    batch = arrange([BatchOfIds.encoding(generator, length) for length in (5, 17, 3)])
    theirs, ours, places = torch_runtime.to_tensors(batch), runtime.to_tensors(batch), np.array([2, 0, 9, 2])
    expected = torch_run(one, lambda: [one(theirs, positions=torch.from_numpy(places)).logits], [])
    assert_same(expected, mxnet_run(two, lambda: [two(ours, positions=mxnet.nd.array(places)).logits], []))
    assert expected[0][0].shape == (4, 101)


def _lively_pair(hybridize: bool = False) -> tuple[torch_gpt.Gpt, Any]:
    """Parameters so large that texts differ; token 82 ends three of the four."""
    one, two = _pair(hybridize, eos_token_id=82)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter *= 3
    two.load_tensors(one.tensors(), "the other edition")
    return one, two


PROMPTS = [[5, 6, 7], [9], [3, 1, 4, 1, 5, 9, 2, 6], [8, 9]]


@pytest.mark.parametrize("sampling", [None, Sampling(temperature=0)])
@pytest.mark.parametrize("hybridize", [False, True])
def test_both_write_the_same(hybridize: bool, sampling: Sampling | None) -> None:
    """Some texts end by themselves and some do not; each is what its prompt gives alone."""
    one, two = _lively_pair(hybridize)
    expected, found = (model.generate(PROMPTS, max_length=15, sampling=sampling) for model in (one, two))
    assert [text.ids for text in found] == [text.ids for text in expected]
    assert [text.ended for text in found] == [text.ended for text in expected]
    assert [len(text.ids) for text in found] == [15, 1, 1, 3]
    for prompt, text, theirs in zip(PROMPTS, found, expected, strict=True):
        assert abs(text.score - theirs.score) < 1e-4
        alone = two.generate([prompt], max_length=15, sampling=sampling)[0]
        assert (alone.ids, alone.ended) == (text.ids, text.ended)


def test_what_is_drawn_follows_the_seed_and_the_model() -> None:
    one, two = _lively_pair()
    texts = [two.generate(PROMPTS, 6, Sampling(temperature=0.5, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    for prompt, text in zip(PROMPTS, texts[0], strict=True):
        ids = torch.tensor([[*prompt, *text.ids, *([82] if text.ended else [])]])
        scores = one(ids).logits[0].detach().log_softmax(dim=-1)  # (L, V)
        expected = sum(float(scores[place - 1, ids[0, place]]) for place in range(len(prompt), ids.shape[1]))
        assert abs(text.score - expected) < 1e-4
    assert two.generate(PROMPTS, 6, Sampling(top_k=1)) == two.generate(PROMPTS, 6)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.0}, {"temperature": 0.5}, {"top_k": 3}, {"top_p": 0.7}])
def test_tokens_have_the_same_probabilities(settings: dict[str, Any]) -> None:
    scores = np.random.default_rng(6).standard_normal((5, 20)).astype(np.float32)
    for sampling in (Sampling(**settings), Sampling(**{"temperature": 2.0, "top_k": 12, "top_p": 0.6, **settings})):
        expected = torch_distribution(torch.from_numpy(scores), sampling).numpy()
        assert np.abs(next_token_distribution(scores, sampling) - expected).max() < 1e-6


def test_saved_by_one_loads_in_the_other(tmp_path: Path) -> None:
    one, two = _pair()
    two.save_pretrained(tmp_path / "mxnet")
    one.save_pretrained(tmp_path / "torch")
    files = [(tmp_path / edition / "model.safetensors").read_bytes() for edition in ("mxnet", "torch")]
    assert files[0] == files[1]
    expected, got = one.tensors(), gpt.Gpt.from_pretrained(tmp_path / "torch").tensors()
    for name, array in expected.items():
        assert np.array_equal(array, got[name]), name


def test_mistakes_are_the_same_lines() -> None:
    one, two = _pair()
    with pytest.raises(UserError) as theirs:
        one(torch.zeros(1, 48, dtype=torch.long))
    with pytest.raises(UserError) as ours:
        two(mxnet.nd.zeros((1, 48)))
    assert str(theirs.value) == str(ours.value)
    for prompts in ([], [[1], []]):
        for model in (one, two):
            with pytest.raises(UserError, match="a prompt must end in a token"):
                model.generate(prompts, max_length=5)
    for model in (one, two):
        with pytest.raises(UserError, match="a text of 50 tokens"):
            model.generate([[2], [1] * 40], max_length=11)
