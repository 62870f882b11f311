"""Model folders, ``config.json`` and ``model.safetensors``: under our own parameter names, or Hugging Face's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import nn

from d2lbert.weights.bert import with_pooler
from d2lbert.weights.folder import CONFIG_FILE, match, read_tensors, select, write_folder

Model = TypeVar("Model", bound=nn.Module)


def save_model(model: Any, folder: str | Path) -> None:
    """Write the configuration and the parameters of a model, each file atomically; shared tensors once."""
    tensors = {name: value.detach().float().cpu().numpy() for name, value in model.named_parameters()}
    write_folder(folder, model.config, tensors)


def load_model(model_class: type[Model], config_class: Any, folder: str | Path) -> Model:
    """Build a model from the folder's configuration, with the folder's parameters, ready for use (no dropout).

    Raises:
        UserError: a file is missing or damaged, or configuration and weights do not fit.
    """
    path = Path(folder)
    model = model_class(config_class.from_json(path / CONFIG_FILE))
    parameters = dict(model.named_parameters())
    shapes = {name: tuple(value.shape) for name, value in parameters.items()}
    tensors = match(read_tensors(path), shapes, path)
    with torch.no_grad():
        for name, array in tensors.items():
            parameters[name].copy_(torch.from_numpy(array))
    return model.eval()


class HuggingFaceEncoder(nn.Module, ABC):
    """An encoder whose folder ``transformers`` reads and writes as well.

    Fields:
        config_class: the class of its configuration.
        config: its sizes.
    """

    config_class: ClassVar[Any]
    config: Any

    @abstractmethod
    def names(self) -> dict[str, str]:
        """Return the table from our parameter names to Hugging Face's."""

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a folder in Hugging Face's layout (``config.json``, ``model.safetensors``), or a name of the zoo.

        Heads in the file (masked words, classification) are left aside. Where the model has a pooler and the file has
        none, one starts at random, with a warning.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        model = cls(cls.config_class.from_json(path / CONFIG_FILE))
        tensors = read_tensors(path)
        if "pooler.weight" in model.names():
            tensors = with_pooler(tensors, model.tensors, path)
        model.load_tensors(tensors, path)
        return model.eval()

    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""
        shapes = {name: tuple(value.shape) for name, value in self.state_dict().items()}
        chosen = select(tensors, self.names(), shapes, origin)
        self.load_state_dict({name: torch.from_numpy(array) for name, array in chosen.items()})

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""
        state = self.state_dict()
        return {theirs: state[ours].detach().float().cpu().numpy() for ours, theirs in self.names().items()}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``; the class of this name in ``transformers`` loads them."""
        write_folder(folder, self.config, self.tensors())
