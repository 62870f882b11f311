"""Model folders in Hugging Face's layout: configuration and safetensors in and out.

Tensors are NumPy arrays here, so that both editions read the same files. No pickle is ever loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from d2lbert.errors import UserError
from d2lbert.storage.files import atomic, write_text

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
OPTIONS_FILE = "options.json"  # of an ELMo
# A block of BERT, ALBERT and DistilBERT, in Hugging Face's names.
_IN_BLOCK = re.compile(r"(encoder\.layer|encoder\.albert_layer_groups|transformer\.layer)\.")


def canonical_name(name: str) -> str:
    """Map other spellings to ours: gamma and beta of TensorFlow's LayerNorm, and the encoder's name before a point."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    return re.sub(r"^(bert|ernie|albert|distilbert)\.", "", name)


def read_tensors(folder: str | Path) -> dict[str, np.ndarray]:
    """Read ``model.safetensors`` of a model folder, names made canonical, numbers in float32.

    Raises:
        UserError: the file is missing, damaged, or of a number format that NumPy does not have.
    """
    path = Path(folder) / WEIGHTS_FILE
    if not path.is_file():
        raise UserError(
            f"no {WEIGHTS_FILE} in {folder}: give a folder in Hugging Face's layout with safetensors weights"
        )
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged ({error}): copy the file again") from None
    except TypeError as error:
        raise UserError(f"{path} holds numbers that NumPy cannot read ({error}): convert it to float32") from None
    return {canonical_name(name): _float32(array) for name, array in tensors.items()}


def _float32(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array


def check_tensors(
    tensors: Mapping[str, np.ndarray],
    shapes: Mapping[str, tuple[int, ...]],
    origin: str | Path,
    may_be_left: Callable[[str], bool] = lambda name: False,
) -> None:
    """Hold the tensors of a file to the names and shapes that a model has.

    Args:
        tensors: what the file holds.
        shapes: name -> the shape that the configuration asks for.
        origin: the file or folder, for messages.
        may_be_left: whether a tensor that the model has not may stand in the file; by default none may.

    Raises:
        UserError: a tensor is missing, of another shape, or one too many.
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
    for name in tensors:
        if name not in shapes and not may_be_left(name):
            raise UserError(
                f"{origin}: the weights hold {name!r}, which the configuration has no place for: "
                "configuration and weights are not of one model"
            )


def select(
    tensors: Mapping[str, np.ndarray],
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    origin: str | Path,
) -> dict[str, np.ndarray]:
    """Pick the tensors that a model has, under our names. Others are left aside, but for blocks of an encoder.

    Args:
        tensors: what the file holds, under Hugging Face's names.
        names: our name -> Hugging Face's.
        shapes: our name -> the shape that the configuration asks for.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing, of another shape, or the file has more blocks than the configuration.
    """
    # A head has no blocks, and leaves those of its encoder aside.
    has_blocks = any(_IN_BLOCK.match(name) for name in names.values())
    wanted = {theirs: shapes[ours] for ours, theirs in names.items()}
    check_tensors(tensors, wanted, origin, lambda name: not (has_blocks and _IN_BLOCK.match(name)))
    return {ours: tensors[theirs] for ours, theirs in names.items()}


class Config(Protocol):
    """Any configuration: it can be written as JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""


def write_folder(
    folder: str | Path, config: Config, tensors: Mapping[str, np.ndarray], fields: Mapping[str, Any] | None = None
) -> None:
    """Write ``config.json`` and ``model.safetensors``, each atomically.

    Args:
        folder: made if it does not exist.
        config: the sizes.
        tensors: Hugging Face name -> array.
        fields: more fields for ``config.json``, such as the label names.
    """
    write_tensors(folder, tensors)
    write_json(Path(folder) / CONFIG_FILE, {**config.to_dict(), **(fields or {})})


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of JSON atomically, such as ``config.json``."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_tensors(folder: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write ``model.safetensors`` atomically."""
    with atomic(Path(folder) / WEIGHTS_FILE) as temporary:
        contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        try:
            # transformers refuses a file that does not say which framework wrote it; the layout is the same for all.
            save_file(contiguous, temporary, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{error}") from None
