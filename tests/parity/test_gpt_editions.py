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
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.torch import gpt as torch_gpt
from d2lbert.torch import runtime as torch_runtime

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

import mxnet
from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run

from d2lbert.mxnet import gpt, runtime


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


def test_both_write_the_same() -> None:
    one, two = _pair()
    for prompt in ([5, 6, 7], [9], [3, 1, 4, 1, 5, 9]):
        assert two.generate(prompt, max_length=15) == one.generate([prompt], max_length=15)[0].ids


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
    with pytest.raises(UserError, match="a prompt must end in a token"):
        two.generate([])
    with pytest.raises(UserError, match="a text of 50 tokens"):
        two.generate([1] * 40, max_length=11)
