"""What fine-tuning and pretraining share: parameter groups, a step of descent and BERT's first AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from d2lbert.training.schedules import inverse_square_root_decay as inverse_square_root_decay  # its name for others
from d2lbert.training.schedules import layer_factors
from d2lbert.training.schedules import linear_warmup_and_decay as linear_warmup_and_decay  # its name for others


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Split the parameters: weight decay for matrices, none for biases and LayerNorm.

    Decay pulls a weight towards zero. That would harm a bias, and the scale of a LayerNorm, whose natural value is one.
    """
    matrices = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.dim() >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.dim() < 2]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]


def layer_groups(
    model: nn.Module, weight_decay: float, learning_rate: float, layer_decay: float
) -> list[dict[str, Any]]:
    """Split the parameters as :func:`decay_groups` does, with smaller learning rates for lower layers.

    The head and the pooler learn at ``learning_rate``, the top block at ``layer_decay`` times that, the block below at
    ``layer_decay`` squared times that, and so on down to the embeddings (Howard and Ruder 2018). The lowest layers
    serve any task and should change least.
    """
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    factors = layer_factors(parameters, layer_decay)
    groups = []
    for factor in sorted(set(factors.values())):  # of the embeddings first
        members = [parameter for name, parameter in parameters.items() if factors[name] == factor]
        matrices = [parameter for parameter in members if parameter.dim() >= 2]
        vectors = [parameter for parameter in members if parameter.dim() < 2]
        rate = learning_rate * factor
        groups.append({"params": matrices, "weight_decay": weight_decay, "lr": rate})
        groups.append({"params": vectors, "weight_decay": 0.0, "lr": rate})
    return [group for group in groups if group["params"]]


def scale_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rate of each group of parameters to its initial rate times ``factor``."""
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
        group["lr"] = group["initial_lr"] * factor


def descend(loss: Tensor, model: nn.Module, optimizer: torch.optim.Optimizer, clip: float) -> Tensor:
    """Take one step of gradient descent.

    Args:
        loss: a scalar.
        clip: the largest norm of the gradient; a longer gradient is scaled down to it (Pascanu et al. 2013).

    Returns:
        The loss without its graph, still on its device.
    """
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.detach()


class UncorrectedAdamW(torch.optim.Optimizer):
    """AdamW as BERT was first released: without the correction of the moments' bias.

    With a gradient g, Adam keeps m = b1 m + (1 - b1) g and v = b2 v + (1 - b2) g^2, both from zero, and takes the step
    -rate m / (sqrt(v) + epsilon). At first m and v are too small, v far more than m: with (b1, b2) = (0.9, 0.999) the
    steps are up to 6.6 times as long as with the correction (Kingma and Ba 2015, section 3), and more than 3 times for
    the first hundred. That is one reason why fine-tuning failed on small data sets (Mosbach et al. 2021, section 5;
    Zhang et al. 2021, section 4). ``torch.optim.AdamW`` corrects; use this one to see what happens without.

    Args:
        params: parameters, or groups of them with their own ``lr`` and ``weight_decay``.
        lr: the learning rate.
        betas: b1 and b2.
        eps: epsilon; 1e-6 in BERT's code.
        weight_decay: each step also shrinks the weights by lr times this fraction (Loshchilov and Hutter 2019).
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step and return the loss of ``closure``, which is called first to compute gradients; or None."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            first, second = group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
                state["m"].lerp_(parameter.grad, 1 - first)
                state["v"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.addcdiv_(state["m"], state["v"].sqrt().add_(group["eps"]), value=-group["lr"])
        return loss
