"""Model folders under our own parameter names: ``config.json`` and ``model.safetensors``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from d2lbert import weights

Model = TypeVar("Model", bound=nn.Module)


def save_model(model: Any, folder: str | Path) -> None:
    """Write the configuration and the parameters of a model, each file atomically; shared tensors once."""
    tensors = {name: value.detach().float().cpu().numpy() for name, value in model.named_parameters()}
    weights.write_folder(folder, model.config, tensors)


def load_model(model_class: type[Model], config_class: Any, folder: str | Path) -> Model:
    """Build a model from the folder's configuration, with the folder's parameters, ready for use (no dropout).

    Raises:
        UserError: a file is missing or damaged, or configuration and weights do not fit.
    """
    path = Path(folder)
    model = model_class(config_class.from_json(path / weights.CONFIG_FILE))
    parameters = dict(model.named_parameters())
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    tensors = weights.match(weights.read_tensors(path), shapes, path)
    with torch.no_grad():
        for name, array in tensors.items():
            parameters[name].copy_(torch.from_numpy(array))
    return model.eval()
