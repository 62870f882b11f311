"""Read and write model folders in Hugging Face's layout: configuration and safetensors.

Tensors are NumPy arrays here, so that both editions read the same files. No pickle is ever loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from d2lbert.errors import UserError
from d2lbert.storage.files import atomic, write_text
from d2lbert.weights.header import WEIGHTS_FILE, TensorInfo, read_bfloat16, read_header
from d2lbert.weights.header import canonical_name as canonical_name  # its name for others

CONFIG_FILE = "config.json"
ONNX_FILE = "model.onnx"  # the graph of an exported model, which takes the place of the weights
OPTIONS_FILE = "options.json"  # of an ELMo, in place of config.json
# A block of BERT, ALBERT and DistilBERT, in Hugging Face's names.
_IN_BLOCK = re.compile(r"(encoder\.layer|encoder\.albert_layer_groups|transformer\.layer)\.")
_WHOLE_NUMBERS = ("I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL")  # buffers, never parameters


def read_tensors(folder: str | Path, name: str = WEIGHTS_FILE) -> dict[str, np.ndarray]:
    """Read a file of safetensors in a model folder, with canonical names and real numbers in float32.

    Whole numbers stay as they are. Tensors of kinds that NumPy does not have, other than bfloat16, are left out.

    Raises:
        UserError: the file is missing, damaged, or holds a tensor twice under two names.
    """
    path, header = Path(folder) / name, read_header(folder, name)
    tensors: dict[str, np.ndarray] = {}
    with safe_open(path, "np") as file:
        for canonical, info in header.items():
            if info.dtype == "BF16":
                tensors[canonical] = read_bfloat16(path, info)
            elif info.is_real:
                tensors[canonical] = file.get_tensor(info.name).astype(np.float32, copy=False)
            elif info.dtype in _WHOLE_NUMBERS:
                tensors[canonical] = file.get_tensor(info.name)
    return tensors


def check_tensors(
    tensors: Mapping[str, np.ndarray] | Mapping[str, TensorInfo],
    shapes: Mapping[str, tuple[int, ...]],
    origin: str | Path,
    may_be_ignored: Callable[[str], bool] = lambda name: False,
) -> None:
    """Check that the tensors of a file have the names and shapes of a model, and hold finite real numbers.

    Args:
        tensors: what the file holds, or what its header says of it.
        shapes: name -> the shape that the configuration requires.
        origin: the file or folder, for messages.
        may_be_ignored: tells by its name whether a tensor that the model lacks may be ignored; by default none may.

    Raises:
        UserError: a tensor is missing, has another shape, holds other numbers, or does not belong to the model.
    """
    missing = [name for name in shapes if name not in tensors]
    if missing:
        raise UserError(
            f"{origin} lacks {len(missing)} of {len(shapes)} tensors, first {missing[0]!r}: "
            "its weights are of another kind of model, or incomplete"
        )
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise UserError(
                f"{origin}: {name} has shape {tensors[name].shape} but the configuration asks for {shape}: "
                "configuration and weights are not of one model"
            )
        _check_numbers(name, tensors[name], origin)
    for name in tensors:
        if name not in shapes and not may_be_ignored(name):
            raise UserError(
                f"{origin}: the weights hold {name!r}, which the configuration has no place for: "
                "configuration and weights are not of one model"
            )


def _check_numbers(name: str, tensor: np.ndarray | TensorInfo, origin: str | Path) -> None:
    """Refuse whole, complex and quantised numbers, and an array with a number that is not finite."""
    real = tensor.is_real if isinstance(tensor, TensorInfo) else np.issubdtype(tensor.dtype, np.floating)
    if not real:
        raise UserError(
            f"{origin}: {name} holds numbers of type {tensor.dtype}: give weights in float32, float16 or bfloat16"
        )
    if not isinstance(tensor, TensorInfo) and not np.isfinite(tensor).all():
        raise UserError(f"{origin}: {name} holds NaN or infinity: the training went wrong, use other weights")


def select(
    tensors: Mapping[str, np.ndarray],
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    origin: str | Path,
) -> dict[str, np.ndarray]:
    """Return the tensors of a model under our names. Other tensors are ignored, except additional blocks of an encoder.

    Args:
        tensors: what the file holds, under Hugging Face's names.
        names: our name -> Hugging Face's.
        shapes: our name -> the shape that the configuration requires.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing, has another shape or other numbers, or the file has more blocks than the
            configuration.
    """
    check_tensors(tensors, {theirs: shapes[ours] for ours, theirs in names.items()}, origin, _is_beside(names.values()))
    return {ours: tensors[theirs] for ours, theirs in names.items()}


def check_header(header: Mapping[str, TensorInfo], shapes: Mapping[str, tuple[int, ...]], origin: str | Path) -> None:
    """Check the header of a file as :func:`select` checks its tensors, before a model of these sizes is built.

    Args:
        header: of :func:`~d2lbert.weights.header.read_header`.
        shapes: name in the file -> the shape that the configuration requires. A pooler is left for later: it may be
            missing.
        origin: the folder, for messages.
    """
    required = {name: shape for name, shape in shapes.items() if not name.startswith("pooler.")}
    check_tensors(header, required, origin, _is_beside(required))


def _is_beside(names: Iterable[str]) -> Callable[[str], bool]:
    """Return what tells whether a tensor may be ignored: all but blocks, of which a head alone ignores those, too."""
    has_blocks = any(_IN_BLOCK.match(name) for name in names)
    return lambda name: not (has_blocks and _IN_BLOCK.match(name))


class Config(Protocol):
    """What :func:`write_folder` needs of a configuration."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, ready for JSON."""


def write_folder(
    folder: str | Path, config: Config, tensors: Mapping[str, np.ndarray], fields: Mapping[str, Any] | None = None
) -> None:
    """Write ``config.json`` and ``model.safetensors``, each atomically.

    Args:
        folder: created if it does not exist.
        config: the sizes.
        tensors: Hugging Face's name -> array.
        fields: more fields for ``config.json``, such as the label names.

    Raises:
        UserError: a number is NaN or infinite, the folder cannot be written, or the disk is full.
    """
    write_tensors(folder, tensors)
    write_json(Path(folder) / CONFIG_FILE, {**config.to_dict(), **(fields or {})})


def in_half(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays in float16. A number above 65,504 becomes infinite there, which :func:`write_tensors` refuses."""
    with np.errstate(over="ignore"):
        return {name: array.astype(np.float16) for name, array in tensors.items()}


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, such as ``config.json``."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_tensors(folder: str | Path, tensors: Mapping[str, np.ndarray], name: str = WEIGHTS_FILE) -> None:
    """Write a file of safetensors atomically.

    Raises:
        UserError: a number is NaN or infinite, the folder cannot be written, or the disk is full.
    """
    for tensor, array in tensors.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise UserError(
                f"{tensor} holds NaN or infinity, so nothing was written to {folder}: the training went wrong, "
                "lower the learning rate"
            )
    with atomic(Path(folder) / name) as temporary:
        contiguous = {tensor: np.ascontiguousarray(array) for tensor, array in tensors.items()}
        try:
            # transformers rejects a file that does not name the framework that wrote it; all have the same layout.
            save_file(contiguous, temporary, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{error}") from None
