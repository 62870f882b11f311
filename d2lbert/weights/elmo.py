"""ELMo's weights as AllenNLP published them, under our names: read from HDF5, transposed and reordered."""

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

    The file comes from TensorFlow: matrices are transposed, the gates of an LSTM are in the order input, candidate,
    forget, output, the bias of the forget gate lacks a one that TensorFlow adds, and the highway's gate says how much
    of the *transformed* vector to take.

    Args:
        tensors: what the file holds, under AllenNLP's names.
        config: the sizes.
        shapes: our name -> the shape that the configuration requires.
        origin: the file, for messages.

    Raises:
        UserError: an array is missing or does not have the shape that the configuration requires.
    """
    try:
        parameters = _elmo_cnn(tensors, config)
        for number, direction in enumerate(("forward", "backward")):
            for layer in range(config.num_layers):
                prefix = f"RNN_{number}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                parameters |= _elmo_lstm(tensors, prefix, f"{direction}_layers.{layer}")
    except KeyError as error:
        raise UserError(f"{origin} lacks the array {error}: weights and options are not of one model") from None
    check_tensors(parameters, shapes, origin)
    return parameters


def _elmo_cnn(tensors: Mapping[str, np.ndarray], config: ElmoConfig) -> dict[str, np.ndarray]:
    """Return the parameters of the character network: table, convolutions, highways, projection."""
    table = tensors["char_embed"]
    parameters = {"words.characters.weight": np.vstack([np.zeros_like(table[:1]), table])}  # row 0: no word
    for number in range(len(config.filters)):
        parameters[f"words.convolutions.{number}.weight"] = tensors[f"CNN/W_cnn_{number}"][0].transpose(2, 1, 0)
        parameters[f"words.convolutions.{number}.bias"] = tensors[f"CNN/b_cnn_{number}"]
    for number in range(config.num_highway_layers):
        for ours, theirs in (("gate", "carry"), ("transform", "transform")):
            parameters[f"words.highways.{number}.{ours}.weight"] = tensors[f"CNN_high_{number}/W_{theirs}"].T
            parameters[f"words.highways.{number}.{ours}.bias"] = tensors[f"CNN_high_{number}/b_{theirs}"]
    parameters["words.projection.weight"] = tensors["CNN_proj/W_proj"].T
    parameters["words.projection.bias"] = tensors["CNN_proj/b_proj"]
    return parameters


def _elmo_lstm(tensors: Mapping[str, np.ndarray], tensorflow_prefix: str, our_prefix: str) -> dict[str, np.ndarray]:
    """Return the parameters of one LSTM layer of one direction."""
    kernel = tensors[f"{tensorflow_prefix}/W_0"].T  # (4 C, input + D)
    input_gate, candidate, forget_gate, output_gate = np.split(kernel, 4)
    weight = np.concatenate([input_gate, forget_gate, candidate, output_gate])
    input_gate, candidate, forget_gate, output_gate = np.split(tensors[f"{tensorflow_prefix}/B"], 4)
    projection = tensors[f"{tensorflow_prefix}/W_P_0"].T  # (D, C)
    input_size = kernel.shape[1] - projection.shape[0]
    return {
        f"{our_prefix}.input.weight": weight[:, :input_size],
        f"{our_prefix}.input.bias": np.concatenate([input_gate, forget_gate + 1, candidate, output_gate]),
        f"{our_prefix}.recurrent.weight": weight[:, input_size:],
        f"{our_prefix}.projection.weight": projection,
    }
