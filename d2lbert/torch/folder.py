"""Model folders, ``config.json`` and ``model.safetensors``, under our own parameter names or Hugging Face's.

What reads and writes files is imported where it is used, so that a network can be built and run without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from d2lbert.weights.header import TensorInfo
    from d2lbert.weights.shapes import Shapes

Model = TypeVar("Model", bound=nn.Module)


def save_model(model: Any, folder: str | Path, half: bool = False) -> None:
    """Write the configuration and the parameters of a model, each file atomically, each shared tensor once.

    Args:
        half: write float16 instead of float32: half the size, and about three decimals.

    Raises:
        UserError: a number is NaN or infinite (for float16, larger than 65,504), or the folder cannot be written.
    """
    from d2lbert.weights.folder import in_half, write_folder

    tensors = to_arrays(dict(model.named_parameters()))
    write_folder(folder, model.config, in_half(tensors) if half else tensors)


def load_model(
    model_class: type[Model], config_class: Any, folder: str | Path, shapes: Callable[[Any], Shapes]
) -> Model:
    """Build a model from the folder's configuration, with the folder's parameters, ready for use (no dropout).

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
    parameters = dict(model.named_parameters())
    tensors = read_tensors(path)
    check_tensors(tensors, expected, path)
    with torch.no_grad():
        for name, array in tensors.items():
            parameters[name].copy_(torch.from_numpy(array))
    return model.eval()


def skip_init(build: Callable[[], Model]) -> Model:
    """Return a network whose parameters have their shapes and no numbers yet: every one has to be loaded.

    A new network draws a random number for each parameter, which takes longer than to read a file of them.
    ``torch.nn.utils.skip_init`` does the same for one layer. On the device ``meta`` the buffers would have no numbers
    either, and no file holds those.

    Args:
        build: makes the network.
    """
    with _SkipInit():
        return build()


class _SkipInit(TorchFunctionMode):
    """Where this is entered, a tensor that shall be filled at random stays as it is. It holds for one thread."""

    # How linear layers, embeddings and BERT fill theirs.
    drawing = (nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.drawing:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Return tensors as NumPy arrays, in float32."""
    return {name: value.detach().float().cpu().numpy() for name, value in tensors.items()}


def shapes_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor."""
    return {name: tuple(value.shape) for name, value in tensors.items()}


def load_named(module: nn.Module, names: Mapping[str, str], tensors: Mapping[str, np.ndarray], origin: Any) -> None:
    """Load some parameters of a module from the tensors of a file.

    Args:
        names: our name of each parameter -> its name in the file.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing or of another shape, or the file has more blocks than the configuration.
    """
    from d2lbert.weights.folder import select

    shapes = shapes_of(module.state_dict())
    selected = select(tensors, names, {name: shapes[name] for name in names}, origin)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in selected.items()}, strict=False)


def named_arrays(module: nn.Module, names: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return some parameters of a module under their names in a file; ``names`` as in :func:`load_named`."""
    state = module.state_dict()
    return {names[name]: array for name, array in to_arrays({name: state[name] for name in names}).items()}


class HuggingFaceFolder(nn.Module, ABC):
    """A model whose folder ``transformers`` reads and writes as well.

    Fields:
        config_class: the class of its configuration.
        config: its sizes.
    """

    config_class: ClassVar[Any]
    config: Any

    @classmethod
    def from_pretrained(cls, folder: str | Path, initialize: bool = True) -> Self:
        """Load a folder in Hugging Face's layout (``config.json``, ``model.safetensors``), or a named one of the zoo.

        Other heads in the file are ignored. If a BERT without a head has a pooler and the file has none, the pooler
        starts at random, with a warning.

        Args:
            folder: its path, or its name.
            initialize: draw the random numbers of a new model before those of the file take their place. So a head
                that is made next is the same for a seed as of a new encoder; False saves the time.

        Raises:
            UserError: a file is missing or damaged, or configuration and weights do not fit.
        """
        from d2lbert.weights.folder import CONFIG_FILE, read_tensors
        from d2lbert.weights.header import read_header
        from d2lbert.zoo.folders import locate

        path = locate(folder)
        config = cls.config_class.from_json(path / CONFIG_FILE)
        cls.check_file(read_header(path), config, path)
        tensors = read_tensors(path)
        model = cls(config) if initialize or not cls.is_complete(tensors) else skip_init(lambda: cls(config))
        model.load_tensors(model.complete(tensors, path), path)
        return model.eval()

    @classmethod
    @abstractmethod
    def check_file(cls, header: Mapping[str, TensorInfo], config: Any, origin: Path) -> None:
        """Refuse a file whose header does not fit the configuration, before a model of these sizes is built.

        Raises:
            UserError: a tensor is missing, has another shape or other numbers, or does not belong to the model.
        """

    @classmethod
    def is_complete(cls, tensors: Mapping[str, np.ndarray]) -> bool:
        """Whether the tensors of a file that was not refused hold every parameter of a model."""
        return True

    def complete(self, tensors: dict[str, np.ndarray], origin: Path) -> dict[str, np.ndarray]:
        """Return the tensors of a file, completed by those that it may lack."""
        return tensors

    @abstractmethod
    def load_tensors(self, tensors: dict[str, np.ndarray], origin: str | Path) -> None:
        """Load NumPy tensors under Hugging Face's names; ``origin`` is named in errors."""

    @abstractmethod
    def tensors(self) -> dict[str, np.ndarray]:
        """Return the parameters as NumPy arrays under Hugging Face's names."""

    def folder_fields(self) -> dict[str, Any]:
        """Return the fields of ``config.json`` besides the sizes."""
        return {}

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors``; the class of this name in ``transformers`` loads them."""
        from d2lbert.weights.folder import write_folder

        write_folder(folder, self.config, self.tensors(), self.folder_fields())
