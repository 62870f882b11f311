"""Model folders under our own parameter names: ``config.json`` and ``model.safetensors``.

What reads and writes files is imported where it is used, so that a network can be read, built and run without it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from mxnet import nd

from d2lbert.mxnet.blocks import Block, shared_names

if TYPE_CHECKING:
    from d2lbert.weights.header import TensorInfo
    from d2lbert.weights.shapes import Shapes


def save_model(model: Any, folder: str | Path, half: bool = False) -> None:
    """Write the configuration and the parameters of a model, each file atomically; shared tensors once.

    Args:
        half: write float16 instead of float32: half the size, and about three decimals.

    Raises:
        UserError: a number is NaN or infinite (for float16, larger than 65,504), or the folder cannot be written.
    """
    from d2lbert.weights.folder import in_half, write_folder

    tensors = {name: parameter.data().asnumpy() for name, parameter in shared_names(model).items()}
    write_folder(folder, model.config, in_half(tensors) if half else tensors)


def load_model(model_class: Any, config_class: Any, folder: str | Path, shapes: Callable[[Any], Shapes]) -> Any:
    """Build a model from the folder's configuration, with the folder's parameters.

    Args:
        shapes: of :mod:`d2lbert.weights.shapes`, from a configuration to the shape of each parameter; the file is
            checked against it before anything is built.

    Raises:
        UserError: a file is missing or damaged, or configuration and weights do not fit.
    """
    from d2lbert.weights.folder import CONFIG_FILE, check_tensors, read_tensors
    from d2lbert.weights.header import read_header

    path = Path(folder)
    config = config_class.from_json(path / CONFIG_FILE)
    expected = shapes(config)
    check_tensors(read_header(path), expected, path)
    model = model_class(config)
    parameters = shared_names(model)
    tensors = read_tensors(path)
    check_tensors(tensors, expected, path)
    for name, array in tensors.items():
        parameters[name].set_data(nd.array(array))
    return model


def load_named(module: Block, names: Mapping[str, str], tensors: Mapping[str, np.ndarray], origin: Any) -> None:
    """Load some parameters of a module from the tensors of a file.

    Args:
        names: our name of each -> its name in the file.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing or of another shape, or the file has more blocks than the configuration.
    """
    from d2lbert.weights.folder import select

    parameters = shared_names(module)
    shapes = {name: tuple(parameters[name].shape) for name in names}
    for name, array in select(tensors, names, shapes, origin).items():
        parameters[name].set_data(nd.array(array))


def named_arrays(module: Block, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return some parameters of a module under their names in a file; ``names`` as in :func:`load_named`."""
    parameters = shared_names(module)
    return {theirs: parameters[ours].data().asnumpy() for ours, theirs in names.items()}


class HuggingFaceFolder(Block):
    """A model whose folder ``transformers`` and the PyTorch edition read and write as well.

    Fields:
        config_class: the class of its configuration.
        config: its sizes.
    """

    config_class: ClassVar[Any]
    config: Any

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a folder in Hugging Face's layout (``config.json``, ``model.safetensors``), or a name of the zoo.

        Other heads in the file are left aside. Where a BERT without a head has a pooler and the file has none, one
        starts at random, with a warning.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.weights.folder import CONFIG_FILE, read_tensors
        from d2lbert.weights.header import read_header
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        config = cls.config_class.from_json(path / CONFIG_FILE)
        cls.check_file(read_header(path), config, path)
        model = cls(config)
        model.load_tensors(model.complete(read_tensors(path), path), path)
        return model

    @classmethod
    @abstractmethod
    def check_file(cls, header: Mapping[str, TensorInfo], config: Any, origin: Path) -> None:
        """Refuse a file whose header does not fit the configuration, before a model of these sizes is built.

        Raises:
            UserError: a tensor is missing, has another shape or other numbers, or does not belong to the model.
        """

    def complete(self, tensors: dict[str, np.ndarray], origin: Path) -> dict[str, np.ndarray]:
        """Return the tensors of a file, with those that it may lack."""
        return tensors

    @abstractmethod
    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Take over NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""

    @abstractmethod
    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""

    def folder_fields(self) -> dict[str, Any]:
        """Return what ``config.json`` holds beside the sizes."""
        return {}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``; the class of this name in ``transformers`` loads them."""
        from d2lbert.weights.folder import write_folder

        write_folder(folder, self.config, self.tensors(), self.folder_fields())
