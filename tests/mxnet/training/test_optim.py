"""AdamW by hand, groups of parameters, clipping, gradients that are stale, moments there and back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from d2lbert.config.training import Training

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from mxnet import autograd, gluon, nd

from d2lbert.mxnet.blocks import Block
from d2lbert.mxnet.training.optim import Optimization


class _Points(Block):
    """A matrix, a vector, and a vector that the loss does not read. The loss is half the sum of the squares."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = self.params.get("matrix", shape=(1, 2), init="zeros")
        self.vector = self.params.get("vector", shape=(2,), init="zeros")
        self.unused = self.params.get("unused", shape=(2,), init="zeros")
        self.initialize()
        for parameter in (self.matrix, self.vector, self.unused):
            parameter.set_data(nd.array([3.0, 4.0]).reshape(parameter.shape))

    def loss(self) -> Any:
        return (self.matrix.data().square().sum() + self.vector.data().square().sum()) / 2

    def values(self) -> dict[str, list[float]]:
        found = {"matrix": self.matrix, "vector": self.vector, "unused": self.unused}
        return {name: parameter.data().asnumpy().ravel().tolist() for name, parameter in found.items()}


def _step(model: _Points, optimization: Optimization, factor: float = 1.0) -> float:
    with autograd.record():
        loss = model.loss()
    return optimization.descend(loss, factor)


def _adam(weight: float, gradients: list[float], rate: float, decay: float, corrected: bool = True) -> float:
    """Adam as its paper has it, with decay beside it."""
    mean = variance = 0.0
    for step, gradient in enumerate(gradients, start=1):
        mean, variance = 0.9 * mean + 0.1 * gradient, 0.999 * variance + 0.001 * gradient**2
        if corrected:
            change = (mean / (1 - 0.9**step)) / (math.sqrt(variance / (1 - 0.999**step)) + 1e-8)
        else:
            change = mean / (math.sqrt(variance) + 1e-6)
        weight = weight * (1 - rate * decay) - rate * change
    return weight


@pytest.mark.parametrize("corrected", [True, False])
def test_steps_by_hand(corrected: bool) -> None:
    model = _Points()
    settings = Training(learning_rate=0.1, weight_decay=0.5, clip=1e6, bias_correction=corrected)
    optimization, gradients = Optimization.of(model, settings), {"matrix": [], "vector": []}  # type: ignore[var-annotated]
    for _ in range(3):
        before = model.values()  # the gradient of a weight is the weight
        _step(model, optimization)
        for name, decay in (("matrix", 0.5), ("vector", 0.0)):  # matrices alone shrink
            gradients[name].append(before[name][0])
            expected = _adam(3.0, gradients[name], 0.1, decay, corrected)
            assert model.values()[name][0] == pytest.approx(expected, abs=1e-5)


def test_what_the_loss_does_not_read_stays() -> None:
    """Gluon calls its gradient stale; weight decay would change it."""
    model = _Points()
    optimization = Optimization.of(model, Training(learning_rate=0.1, weight_decay=0.5))
    for _ in range(3):
        _step(model, optimization)
    assert model.values()["unused"] == [3.0, 4.0]
    assert "mean.unused" not in optimization.moments()


def test_long_gradients_are_clipped() -> None:
    model = _Points()
    optimization = Optimization.of(model, Training(clip=0.5))
    _step(model, optimization)
    gradients = np.concatenate([parameter.grad().asnumpy().ravel() for parameter in (model.matrix, model.vector)])
    assert np.linalg.norm(gradients) == pytest.approx(0.5, abs=1e-5)
    assert gradients.tolist() == pytest.approx((0.5 * np.array([3, 4, 3, 4]) / math.sqrt(50)).tolist(), abs=1e-6)


def test_the_factor_is_on_the_first_rate() -> None:
    model = _Points()
    optimization = Optimization.of(model, Training(learning_rate=0.1, weight_decay=0.0))
    _step(model, optimization, 0.0)
    assert model.values()["matrix"] == [3.0, 4.0]
    _step(model, optimization, 0.5)
    assert model.values()["matrix"][0] == pytest.approx(3.0 - 0.05, abs=1e-3)


def test_layers_have_their_rates() -> None:
    class Model(gluon.Block):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings, self.classifier = gluon.nn.Embedding(3, 2), gluon.nn.Dense(2, in_units=2)

    model = Model()
    model.initialize()
    Optimization.of(model, Training(layer_decay=0.5))
    assert model.embeddings.weight.lr_mult == 0.5
    assert (model.classifier.weight.lr_mult, model.classifier.weight.wd_mult) == (1.0, 1.0)
    assert model.classifier.bias.wd_mult == 0.0


def test_moments_there_and_back() -> None:
    whole = _Points()
    optimization = Optimization.of(whole, Training(learning_rate=0.1))
    for _ in range(3):
        _step(whole, optimization)
    again, moments = _Points(), optimization.moments()
    assert sorted(moments) == ["mean.matrix", "mean.vector", "variance.matrix", "variance.vector"]
    for name, value in whole.values().items():
        getattr(again, name).set_data(nd.array(value).reshape(getattr(again, name).shape))
    resumed = Optimization.of(again, Training(learning_rate=0.1))
    resumed.restore(moments, 3)
    for _ in range(2):
        _step(whole, optimization)
        _step(again, resumed)
    assert again.values() == whole.values()
