"""Model folders under our own parameter names: ``config.json`` and ``model.safetensors``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mxnet import nd

from d2lbert.mxnet.blocks import shared_names
from d2lbert.weights.folder import CONFIG_FILE, match, read_tensors, write_folder


def save_model(model: Any, folder: str | Path) -> None:
    """Write the configuration and the parameters of a model, each file atomically; shared tensors once."""
    tensors = {name: parameter.data().asnumpy() for name, parameter in shared_names(model).items()}
    write_folder(folder, model.config, tensors)


def load_model(model_class: Any, config_class: Any, folder: str | Path) -> Any:
    """Build a model from the folder's configuration, with the folder's parameters.

    Raises:
        UserError: a file is missing or damaged, or configuration and weights do not fit.
    """
    path = Path(folder)
    model = model_class(config_class.from_json(path / CONFIG_FILE))
    parameters = shared_names(model)
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    for name, array in match(read_tensors(path), shapes, path).items():
        parameters[name].set_data(nd.array(array))
    return model
