"""ELMo's weights as AllenNLP published them, under our names: read from HDF5, transposed and put in order."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.config.elmo import ElmoConfig
from d2lbert.errors import UserError
from d2lbert.weights.folder import check_tensors


def read_elmo(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of an ELMo weights file of AllenNLP (HDF5), under their own names.

    Raises:
        UserError: the file is missing or damaged, or h5py is not installed.
    """
    try:
        import h5py
    except ImportError:
        raise UserError("an .hdf5 file needs h5py: run pip install h5py") from None
    if not Path(path).is_file():
        raise UserError(f"there is no file {path}: give the lm_weights.hdf5 that belongs to the options")
    tensors: dict[str, np.ndarray] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            tensors[name] = np.asarray(item, dtype=np.float32)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(keep)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a whole HDF5 file ({error}): copy it again") from None
    return tensors


def elmo_parameters(
    tensors: Mapping[str, np.ndarray], config: ElmoConfig, shapes: Mapping[str, tuple[int, ...]], origin: str | Path
) -> dict[str, np.ndarray]:
    """Turn AllenNLP's arrays into the parameters of our ELMo, under our names.

    The file comes from TensorFlow: matrices are transposed, the gates of an LSTM stand in the order input, candidate,
    forget, output, the forget gate's bias lacks a one that TensorFlow added, and the highway's gate says how much of
    the *transformed* vector to take.

    Raises:
        UserError: an array is missing or of another shape than the configuration asks for.
    """
    try:
        found = _elmo_cnn(tensors, config)
        for number, direction in enumerate(("forward", "backward")):
            for layer in range(config.num_layers):
                prefix = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                found |= _elmo_lstm(tensors, prefix, f"{direction}_layers.{layer}")
    except KeyError as error:
        raise UserError(f"{origin} lacks the array {error}: weights and options are not of one model") from None
    check_tensors(found, shapes, origin)
    return found


def _elmo_cnn(tensors: Mapping[str, np.ndarray], config: ElmoConfig) -> dict[str, np.ndarray]:
    """The character network: table, convolutions, highways, projection."""
    table = tensors["char_embed"]
    found = {"words.characters.weight": np.vstack([np.zeros_like(table[:1]), table])}  # row 0: no word
    for number in range(len(config.filters)):
        found[f"words.convolutions.{number}.weight"] = tensors[f"CNN/W_cnn_{number}"][0].transpose(2, 1, 0)
        found[f"words.convolutions.{number}.bias"] = tensors[f"CNN/b_cnn_{number}"]
    for number in range(config.num_highway_layers):
        for ours, theirs in (("gate", "carry"), ("transform", "transform")):
            found[f"words.highways.{number}.{ours}.weight"] = tensors[f"CNN_high_{number}/W_{theirs}"].T
            found[f"words.highways.{number}.{ours}.bias"] = tensors[f"CNN_high_{number}/b_{theirs}"]
    found["words.projection.weight"] = tensors["CNN_proj/W_proj"].T
    found["words.projection.bias"] = tensors["CNN_proj/b_proj"]
    return found


def _elmo_lstm(tensors: Mapping[str, np.ndarray], theirs: str, ours: str) -> dict[str, np.ndarray]:
    """One LSTM layer of one direction."""
    both = tensors[f"{theirs}/W_0"].T  # (4 C, input + D)
    entered, candidate, forget, output = np.split(both, 4)
    weight = np.concatenate([entered, forget, candidate, output])
    entered, candidate, forget, output = np.split(tensors[f"{theirs}/B"], 4)
    projection = tensors[f"{theirs}/W_P_0"].T  # (D, C)
    inputs = both.shape[1] - projection.shape[0]
    return {
        f"{ours}.input.weight": weight[:, :inputs],
        f"{ours}.input.bias": np.concatenate([entered, forget + 1, candidate, output]),
        f"{ours}.recurrent.weight": weight[:, inputs:],
        f"{ours}.projection.weight": projection,
    }
