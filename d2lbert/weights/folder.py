"""Read and write model folders in Hugging Face's layout: configuration and safetensors.

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
OPTIONS_FILE = "options.json"  # of an ELMo, in place of config.json
# A block of BERT, ALBERT and DistilBERT, in Hugging Face's names.
_IN_BLOCK = re.compile(r"(encoder\.layer|encoder\.albert_layer_groups|transformer\.layer)\.")


def canonical_name(name: str) -> str:
    """Return a tensor's name in Hugging Face's current spelling and without the encoder's prefix, such as ``bert.``.

    Old files have TensorFlow's ``gamma`` and ``beta`` for weight and bias of LayerNorm.
    """
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    return re.sub(r"^(bert|ernie|albert|distilbert)\.", "", name)


def read_tensors(folder: str | Path) -> dict[str, np.ndarray]:
    """Read ``model.safetensors`` of a model folder, with canonical names and real numbers in float32.

    Raises:
        UserError: the file is missing, damaged, or in a number format that NumPy does not have.
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
    may_be_ignored: Callable[[str], bool] = lambda name: False,
) -> None:
    """Check that the tensors of a file have the names and shapes of a model.

    Args:
        tensors: what the file holds.
        shapes: name -> the shape that the configuration requires.
        origin: the file or folder, for messages.
        may_be_ignored: tells by its name whether a tensor that the model lacks may be ignored; by default none may.

    Raises:
        UserError: a tensor is missing, has another shape, or does not belong to the model.
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
        if name not in shapes and not may_be_ignored(name):
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
    """Return the tensors of a model under our names. Other tensors are ignored, except additional blocks of an encoder.

    Args:
        tensors: what the file holds, under Hugging Face's names.
        names: our name -> Hugging Face's.
        shapes: our name -> the shape that the configuration requires.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing or has another shape, or the file has more blocks than the configuration.
    """
    # A head has no blocks, and ignores those of its encoder.
    has_blocks = any(_IN_BLOCK.match(name) for name in names.values())
    expected_shapes = {theirs: shapes[ours] for ours, theirs in names.items()}
    check_tensors(tensors, expected_shapes, origin, lambda name: not (has_blocks and _IN_BLOCK.match(name)))
    return {ours: tensors[theirs] for ours, theirs in names.items()}


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
        UserError: the folder cannot be written or the disk is full.
    """
    write_tensors(folder, tensors)
    write_json(Path(folder) / CONFIG_FILE, {**config.to_dict(), **(fields or {})})


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, such as ``config.json``."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_tensors(folder: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write ``model.safetensors`` atomically."""
    with atomic(Path(folder) / WEIGHTS_FILE) as temporary:
        contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        try:
            # transformers rejects a file that does not name the framework that wrote it; all have the same layout.
            save_file(contiguous, temporary, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{error}") from None
