"""Random parameters for parity tests: default initialisation (small weights, zero biases) hides most bugs."""

from __future__ import annotations

import torch
from torch import nn


def randomize(module: nn.Module, seed: int = 0, standard_deviation: float = 0.1) -> None:
    """Give every parameter, biases and LayerNorm included, independent normal values.

    LayerNorm weights are centred at one, so that no signal dies on its way through the blocks.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator) * standard_deviation
            parameter.copy_(noise + 1 if "orm.weight" in name else noise)
