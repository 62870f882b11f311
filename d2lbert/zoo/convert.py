"""Convert old checkpoints of PyTorch, ``pytorch_model.bin``, to safetensors, and join safetensors of several files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from d2lbert.errors import UserError
from d2lbert.storage.files import read_json
from d2lbert.weights.folder import read_tensors, write_tensors
from d2lbert.weights.header import TensorInfo, by_canonical_names, read_header

if TYPE_CHECKING:
    from torch import Tensor

OLD_WEIGHTS_FILE = "pytorch_model.bin"
INDEX_FILE = "model.safetensors.index.json"  # of weights in several files

# The output layer of a head is often the matrix of word embeddings again, under one of these names.
_OUTPUT_LAYERS = ("decoder.weight", "vocab_projector.weight", "lm_head.weight")
_WORD_EMBEDDINGS = ("word_embeddings.weight", "wte.weight")


def convert_bin(source: Path, target: Path) -> None:
    """Write the tensors of an old PyTorch checkpoint, a ``.bin``, as safetensors, under the same names.

    Only tensors are read from the file: no code in it can run. An output layer that equals the word embeddings is left
    out, because the models use the embeddings instead. Every other tensor is kept, even where several share memory.

    Args:
        source: the ``.bin``.
        target: the file of safetensors to write.

    Raises:
        UserError: the file cannot be read, is damaged or holds anything but tensors.
    """
    arrays = {name: _to_array(value, name, source) for name, value in _read_bin(source).items()}
    embeddings = [array for name, array in arrays.items() if name.endswith(_WORD_EMBEDDINGS)]
    kept = {}
    for name, array in arrays.items():
        tied = name.endswith(_OUTPUT_LAYERS) and any(np.array_equal(array, embedding) for embedding in embeddings)
        if not tied:
            kept[name] = array
    write_tensors(target.parent, kept)


def join_shards(folder: Path) -> None:
    """Write the tensors of several files of safetensors as one, ``model.safetensors``, under the same names.

    Args:
        folder: with the files, and the index that names the file of each tensor.

    Raises:
        UserError: the index is damaged, a file is missing, damaged or outside the folder, or lacks a tensor.
    """
    table = read_json(folder / INDEX_FILE).get("weight_map")
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise UserError(f"{folder / INDEX_FILE} has no weight_map from tensors to files: restore the file")
    joined: dict[str, np.ndarray] = {}
    for file in sorted(set(table.values())):
        if Path(file).name != file:
            raise UserError(f"{folder / INDEX_FILE} names {file!r}, which is no file of the folder: restore the file")
        header, tensors = read_header(folder, file), read_tensors(folder, file)
        joined |= {header[name].name: tensor for name, tensor in tensors.items()}
    lost = next((name for name in table if name not in joined), None)
    if lost is not None:
        raise UserError(
            f"{folder / table[lost]} lacks {lost!r}, which {INDEX_FILE} says is in it: copy the files again"
        )
    write_tensors(folder, joined)


def bin_header(source: Path) -> dict[str, TensorInfo]:
    """Return what an old PyTorch checkpoint holds, as :func:`~d2lbert.weights.header.read_header` does.

    Raises:
        UserError: as :func:`convert_bin`.
    """
    infos = []
    for name, value in _read_bin(source).items():
        dtype = "F32" if value.is_floating_point() else str(value.dtype)  # all real numbers are written as float32
        infos.append(TensorInfo(name, dtype, tuple(value.shape), 0))
    return by_canonical_names(infos, source)


def _read_bin(source: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a ``.bin`` by their names."""
    import torch

    try:
        checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror or error}; check its permissions") from None
    except Exception as error:  # a damaged file can raise anything in the reader, even an AssertionError
        reason = _why_unreadable(error)
        raise UserError(f"{source} is damaged or holds more than tensors ({reason}): get the file again") from None
    if not isinstance(checkpoint, dict) or not all(isinstance(value, torch.Tensor) for value in checkpoint.values()):
        raise UserError(f"{source} is no table of tensors: give a checkpoint that holds a model's state alone")
    for name in checkpoint:
        if not isinstance(name, str):
            raise UserError(f"{source}: the key {name!r} is no name of a tensor: give a checkpoint of a model's state")
    return checkpoint


def _why_unreadable(error: Exception) -> str:
    """Say in one line why a ``.bin`` cannot be read.

    PyTorch's own message often advises setting ``weights_only`` to False, which would run code in the file.
    """
    text = str(error).strip()
    if isinstance(error, RuntimeError) and text and "weights_only" not in text:
        return text.splitlines()[0]
    return "it is not a plain table of tensors, and nothing else is read"


def _to_array(value: Tensor, name: str, source: Path) -> np.ndarray:
    """Return a tensor as an array, in float32 where it holds real numbers; it may be a parameter or a view."""
    try:
        array: np.ndarray = (value.float() if value.is_floating_point() else value).detach().numpy()
    except (RuntimeError, TypeError):
        kind = f"{value.dtype}, {value.layout}, on {value.device}"
        raise UserError(
            f"{source}: the tensor {name} ({kind}) has no array of its kind: save it dense, in float32"
        ) from None
    return array
