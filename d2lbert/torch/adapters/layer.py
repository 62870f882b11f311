"""Low-rank adapters, LoRA (Hu et al. 2022): a trained encoder stays as it is, and small matrices beside its own learn.

A linear layer computes W x + b. With an adapter it computes W x + b + (alpha / r) B A x, where A is (r, I) and B is
(O, r). W and b are frozen. B starts at zero, so that the model starts where the encoder is. After training the update
can be added to W: the merged layer is as large and as fast as before (section 4.1).

Differs from the paper's experiments in its default: all linear layers get an adapter, not queries and values alone.

Shape legend: I inputs of a layer, O its outputs, r rank.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from d2lbert.config.adapters import TARGETS, AdapterConfig
from d2lbert.errors import UserError

if TYPE_CHECKING:
    from d2lbert.torch.heads import BertWithHead


class LoraLinear(nn.Linear):
    """A linear layer with an adapter: W x + b + (alpha / r) B A x (Hu et al. 2022, equation 3).

    ``weight`` and ``bias`` are those of the layer that it replaces, frozen.

    Args:
        linear: the layer, O outputs and I inputs.
        rank: r.
        alpha: the update is multiplied by alpha / r, so that another rank needs less tuning (section 4.1); the chapter
            on adapters measures how far that goes.
    """

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.requires_grad_(False)
        self.scale = alpha / rank
        self.down = nn.Parameter(linear.weight.new_empty(rank, linear.in_features))  # A
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))  # B
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., I) to (..., O)."""
        update = functional.linear(functional.linear(x, self.down), self.up)  # (..., I) -> (..., r) -> (..., O)
        return super().forward(x) + self.scale * update

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return an ordinary layer with the weight W + (alpha / r) B A; this one is unchanged."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, device="meta")
        linear.weight = nn.Parameter(self.weight + self.scale * self.up @ self.down)
        linear.bias = self.bias
        return linear


def add_adapters(model: BertWithHead, config: AdapterConfig | None = None) -> None:
    """Freeze the encoder of a model and put an adapter beside each of its chosen layers. The head stays trainable.

    Args:
        model: an encoder with a head; changed in place.
        config: rank, alpha and which layers; by default :class:`~d2lbert.config.adapters.AdapterConfig`'s.

    Raises:
        UserError: the model has adapters already, or none of the chosen layers.
    """
    config = config or AdapterConfig()
    if adapted_layers(model):
        raise UserError("the model has adapters already: merge them first, or load the encoder anew")
    chosen = TARGETS[config.targets]
    layers = {
        name: layer
        for name, layer in model.bert.named_modules()
        if isinstance(layer, nn.Linear) and name.endswith(chosen) and (model.uses_pooler or name != "pooler")
    }
    if not layers:
        raise UserError(f"this encoder has no layer called {' or '.join(chosen)}: choose other targets")
    model.bert.requires_grad_(False)
    for name, layer in layers.items():
        model.bert.set_submodule(name, LoraLinear(layer, config.rank, config.alpha))


def adapted_layers(model: BertWithHead) -> dict[str, LoraLinear]:
    """Return the layers of the encoder that have an adapter, by their names in the encoder."""
    return {name: layer for name, layer in model.bert.named_modules() if isinstance(layer, LoraLinear)}


def merge_adapters(model: BertWithHead) -> None:
    """Add every adapter to its layer's weight: the same outputs from a model of the encoder's own size and speed.

    All parameters can be trained again.
    """
    for name, layer in adapted_layers(model).items():
        model.bert.set_submodule(name, layer.merged())
    model.requires_grad_(True)
