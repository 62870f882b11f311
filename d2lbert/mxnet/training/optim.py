"""AdamW for Gluon's trainer, with the same steps as PyTorch's, and one step of descent."""

from __future__ import annotations

import math
from typing import Any, Self

from mxnet import gluon, nd, optimizer

from d2lbert.config.training import Training
from d2lbert.mxnet.attention import Tensor
from d2lbert.mxnet.blocks import shared_names
from d2lbert.training.schedules import layer_factors


class AdamW(optimizer.Optimizer):
    """Adam with weight decay that is not part of the gradient (Loshchilov and Hutter 2019).

    With a gradient g, Adam keeps m = b1 m + (1 - b1) g and v = b2 v + (1 - b2) g^2, both from zero. The step is
    -rate m' / (sqrt(v') + epsilon) with the corrected moments m' = m / (1 - b1^t) and v' = v / (1 - b2^t) (Kingma and
    Ba 2015, algorithm 1), and the weights shrink by rate times the decay. MXNet 1.9 has this update as an operation,
    but no optimizer that calls it.

    Args:
        learning_rate: the rate; a parameter's ``lr_mult`` multiplies it.
        wd: the decay; a parameter's ``wd_mult`` multiplies it.
        epsilon: 1e-8 in PyTorch's AdamW, 1e-6 in BERT's own code.
        bias_correction: False for the moments as they are, as BERT was first released.

    Attributes:
        moments: m and v of each parameter, by its index in the trainer; what a checkpoint must hold.
    """

    def __init__(
        self,
        learning_rate: float,
        wd: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        bias_correction: bool = True,
    ) -> None:
        super().__init__(learning_rate=learning_rate, wd=wd)
        self.betas, self.epsilon, self.bias_correction = betas, epsilon, bias_correction
        self.moments: dict[int, tuple[Tensor, Tensor]] = {}

    def create_state(self, index: int, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the moments of a parameter: zeros, unless they come from a checkpoint."""
        return self.moments.setdefault(index, (nd.zeros_like(weight), nd.zeros_like(weight)))

    def update(self, index: int, weight: Tensor, grad: Tensor, state: tuple[Tensor, Tensor]) -> None:
        """Take one step with one parameter."""
        self._update_count(index)
        count = self._index_update_count[index]
        (first, second), epsilon = self.betas, self.epsilon
        ratio = 1.0
        if self.bias_correction:
            # Both corrections in two numbers: m' / (sqrt(v') + e) = m root / (1 - b1^t) / (sqrt(v) + e root).
            root = math.sqrt(1 - second**count)
            ratio, epsilon = root / (1 - first**count), epsilon * root
        nd.contrib.adamw_update(
            weight, grad, *state, self.rescale_grad, out=weight, lr=ratio, eta=self._get_lr(index),
            wd=self._get_wd(index), beta1=first, beta2=second, epsilon=epsilon,
        )  # fmt: skip


class Optimization:
    """Gluon's trainer over the parameters of a model, with the groups of the PyTorch edition and clipped gradients.

    Weight decay is for matrices, not for biases and LayerNorm.

    Args:
        model: with its parameters initialized.
        rate: the highest learning rate.
        weight_decay: of matrices.
        clip: the largest norm of the gradient; a longer gradient is scaled down to it (Pascanu et al. 2013).
        layer_decay: factor on the rate from each layer to the one below.
        epsilon, bias_correction, betas: of :class:`AdamW`.
    """

    def __init__(
        self,
        model: gluon.Block,
        rate: float,
        weight_decay: float,
        clip: float,
        layer_decay: float = 1.0,
        epsilon: float = 1e-8,
        bias_correction: bool = True,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        self.parameters = shared_names(model)
        for name, factor in layer_factors(self.parameters, layer_decay).items():
            self.parameters[name].lr_mult = factor
            self.parameters[name].wd_mult = float(len(self.parameters[name].shape) >= 2)
        self.rate, self.clip = rate, clip
        self.adam = AdamW(rate, weight_decay, betas, epsilon, bias_correction)
        # One device, so there is nothing to exchange, which a store of keys and values is for.
        self.trainer = gluon.Trainer(list(self.parameters.values()), self.adam, kvstore=None)

    @classmethod
    def of(cls, model: gluon.Block, settings: Training) -> Self:
        """Return that of a fine-tuning run. Without bias correction epsilon is that of BERT's own code."""
        epsilon = 1e-8 if settings.bias_correction else 1e-6
        rates = (settings.learning_rate, settings.weight_decay, settings.clip, settings.layer_decay)
        return cls(model, *rates, epsilon, settings.bias_correction)

    def descend(self, loss: Tensor, factor: float) -> float:
        """Take one step of gradient descent, and return the loss.

        Args:
            loss: (1,), recorded.
            factor: on the learning rate.
        """
        loss.backward()
        self.step(factor)
        return float(loss.asscalar())

    def step(self, factor: float) -> None:
        """Take one step with the gradients as they are.

        A parameter that the loss does not reach keeps its value: Gluon calls its gradient stale.

        Args:
            factor: on the learning rate.
        """
        gradients = [parameter.grad() for parameter in self.parameters.values()]
        gluon.utils.clip_global_norm(gradients, self.clip, check_isfinite=False)
        self.trainer.set_learning_rate(self.rate * factor)
        self.trainer.step(1, ignore_stale_grad=True)

    def moments(self) -> dict[str, Any]:
        """Return the moments as NumPy arrays: ``mean.NAME`` and ``variance.NAME`` of each parameter that has some."""
        arrays: dict[str, Any] = {}
        for index, name in enumerate(self.parameters):
            if index in self.adam.moments:
                mean, variance = self.adam.moments[index]
                arrays |= {f"mean.{name}": mean.asnumpy(), f"variance.{name}": variance.asnumpy()}
        return arrays

    def restore(self, arrays: dict[str, Any], step: int) -> None:
        """Load what :meth:`moments` returned after a step, before the first step of this trainer."""
        for index, (name, parameter) in enumerate(self.parameters.items()):
            if f"mean.{name}" in arrays:
                device = parameter.list_ctx()[0]
                pair = (nd.array(arrays[f"{kind}.{name}"], ctx=device) for kind in ("mean", "variance"))
                self.adam.moments[index] = tuple(pair)
        self.adam.begin_num_update = step
