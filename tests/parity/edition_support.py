"""What the tests of the two editions share: the same parameters in both, and outputs and gradients side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mxnet
import numpy as np
import torch
from random_parameters import randomize

# MXNet names LayerNorm's two parameters by their Greek letters.
_LAYER_NORM = {"gamma": "weight", "beta": "bias"}

Arrays = dict[str, np.ndarray]


def parameters_by_torch_name(block: Any) -> dict[str, Any]:
    """The trainable parameters of a Gluon block, under the names of the PyTorch twin's state_dict."""
    found = {}
    for name, parameter in block._collect_params_with_prefix().items():
        path, _, kind = name.rpartition(".")
        if parameter.grad_req != "null":
            found[f"{path}.{_LAYER_NORM.get(kind, kind)}".removeprefix(".")] = parameter
    return found


def same_random_parameters(module: torch.nn.Module, block: Any, seed: int = 0) -> None:
    """Give both the same random parameters; fails where names or shapes of the two differ."""
    randomize(module, seed)
    block.initialize(force_reinit=True)
    state, parameters = module.state_dict(), parameters_by_torch_name(block)
    assert set(state) == set(parameters)
    for name, parameter in parameters.items():
        assert tuple(parameter.shape) == tuple(state[name].shape), name
        parameter.set_data(mxnet.nd.array(state[name].numpy()))


def torch_run(
    module: torch.nn.Module, call: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], Arrays]:
    """Outputs of ``call(*inputs)`` and the gradients, by inputs and parameters, of one random mixture of them."""
    tensors = [torch.from_numpy(array).requires_grad_() for array in inputs]
    module.zero_grad()
    outputs = list(call(*tensors))
    directions = _directions([output.shape for output in outputs])
    sum((output * torch.from_numpy(d)).sum() for output, d in zip(outputs, directions, strict=True)).backward()
    gradients = {name: value.grad.numpy() for name, value in module.named_parameters() if value.grad is not None}
    gradients |= {f"input {index}": tensor.grad.numpy() for index, tensor in enumerate(tensors)}
    return [output.detach().numpy() for output in outputs], gradients


def mxnet_run(
    block: Any, call: Callable[..., Sequence[Any]], inputs: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], Arrays]:
    """The same for a Gluon block, with dropout off."""
    arrays = [mxnet.nd.array(array) for array in inputs]
    for array in arrays:
        array.attach_grad()
    with mxnet.autograd.record(train_mode=False):
        outputs = list(call(*arrays))
        directions = _directions([output.shape for output in outputs])
        total = mxnet.nd.add_n(
            *[(output * mxnet.nd.array(d)).sum() for output, d in zip(outputs, directions, strict=True)]
        )
    total.backward()
    gradients = {name: parameter.grad().asnumpy() for name, parameter in parameters_by_torch_name(block).items()}
    gradients |= {f"input {index}": array.grad.asnumpy() for index, array in enumerate(arrays)}
    return [output.asnumpy() for output in outputs], gradients


def assert_same(one: tuple[list[np.ndarray], Arrays], two: tuple[list[np.ndarray], Arrays]) -> None:
    """Every output and every gradient within 1e-5."""
    assert len(one[0]) == len(two[0])
    for index, (a, b) in enumerate(zip(one[0], two[0], strict=True)):
        assert a.shape == b.shape, f"output {index}"
        assert np.isfinite(b).all(), f"output {index}"
        assert np.abs(a - b).max() < 1e-5, f"output {index}: {np.abs(a - b).max()}"
    assert set(one[1]) == set(two[1])
    for name, gradient in one[1].items():
        assert np.isfinite(two[1][name]).all(), name
        assert np.abs(gradient - two[1][name]).max() < 1e-5, f"{name}: {np.abs(gradient - two[1][name]).max()}"
        # A comparison of zeros would prove nothing. Key biases move every score of a row alike: no gradient at all.
        assert np.abs(gradient).max() > 1e-6 or name.endswith("key.bias"), name


def _directions(shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """One random array for each output, of length one, so that gradients are of order one."""
    generator = np.random.default_rng(5)
    drawn = [generator.standard_normal(tuple(shape)).astype(np.float32) for shape in shapes]
    return [array / np.float32(np.linalg.norm(array)) for array in drawn]
