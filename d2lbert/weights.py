"""Model folders in Hugging Face's layout: safetensors in and out, and the table of parameter names.

Tensors are NumPy arrays here, so that both editions read the same files. No pickle is ever loaded.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from d2lbert.config import ElmoConfig
from d2lbert.errors import UserError
from d2lbert.files import atomic, write_text

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "config.json"
OPTIONS_FILE = "options.json"  # of an ELMo

# Our name on the left, Hugging Face's on the right. {} stands for a module, then weight and bias follow.
_BLOCK_MODULES = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.project": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
EMBEDDINGS = {
    "embeddings.word.weight": "embeddings.word_embeddings.weight",
    "embeddings.position.weight": "embeddings.position_embeddings.weight",
    "embeddings.segment.weight": "embeddings.token_type_embeddings.weight",
    "embeddings.norm.weight": "embeddings.LayerNorm.weight",
    "embeddings.norm.bias": "embeddings.LayerNorm.bias",
}

# A block of BERT, ALBERT and DistilBERT, in Hugging Face's names.
_IN_BLOCK = re.compile(r"(encoder\.layer|encoder\.albert_layer_groups|transformer\.layer)\.")


def bert_names(num_hidden_layers: int) -> dict[str, str]:
    """Return the table from our parameter names of a BERT encoder to Hugging Face's."""
    names = dict(EMBEDDINGS)
    for block in range(num_hidden_layers):
        for ours, theirs in _BLOCK_MODULES.items():
            for kind in ("weight", "bias"):
                names[f"encoder.blocks.{block}.{ours}.{kind}"] = f"encoder.layer.{block}.{theirs}.{kind}"
    for kind in ("weight", "bias"):
        names[f"pooler.{kind}"] = f"pooler.dense.{kind}"
    return names


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


def with_pooler(
    tensors: Mapping[str, np.ndarray], initial: Callable[[], Mapping[str, np.ndarray]], origin: str | Path
) -> dict[str, np.ndarray]:
    """Return the tensors of an encoder; where the file has no pooler, with that of a new model, and say so.

    Checkpoints of models that were trained without a sentence task have none.

    Args:
        initial: returns the tensors of a new model, under Hugging Face's names.
        origin: the folder, for the warning.
    """
    if any(name.startswith("pooler.") for name in tensors):
        return dict(tensors)
    warnings.warn(
        f"{origin} has no pooler: .pooled starts from random weights and means nothing before it is trained",
        stacklevel=3,
    )
    return {**{name: array for name, array in initial().items() if name.startswith("pooler.")}, **tensors}


def _float32(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array


def select(
    tensors: Mapping[str, np.ndarray],
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    origin: str | Path,
) -> dict[str, np.ndarray]:
    """Pick the tensors that a model wants, under our names.

    Args:
        tensors: what the file holds, under Hugging Face's names.
        names: our name -> Hugging Face's.
        shapes: our name -> the shape that the configuration asks for.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing, of another shape, or the file has more blocks than the configuration.
    """
    missing = [theirs for theirs in names.values() if theirs not in tensors]
    if missing:
        raise UserError(
            f"{origin} lacks {len(missing)} of {len(names)} tensors, first {missing[0]!r}: "
            "its weights are of another kind of model, or incomplete"
        )
    for ours, theirs in names.items():
        if tensors[theirs].shape != shapes[ours]:
            raise UserError(
                f"{origin}: {theirs} has shape {tensors[theirs].shape} but config.json asks for {shapes[ours]}: "
                "configuration and weights are not of one model"
            )
    surplus = _surplus_blocks(tensors, names.values())
    if surplus:
        raise UserError(
            f"{origin}: the weights hold {surplus[0]!r}, more than config.json has layers: correct config.json"
        )
    return {ours: tensors[theirs] for ours, theirs in names.items()}


def match(
    tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], origin: str | Path
) -> dict[str, np.ndarray]:
    """Return the tensors of a file that must hold a model's parameters, under our own names, and nothing else.

    Args:
        shapes: name -> the shape that the configuration asks for.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing, too many, or of another shape.
    """
    for name in [*shapes, *tensors]:
        found = tensors[name].shape if name in tensors else "not there"
        wanted = shapes.get(name, "not there")
        if found != wanted:
            raise UserError(
                f"{origin}: {name} is {found} in the weights and {wanted} by config.json: "
                "configuration and weights are not of one model"
            )
    return dict(tensors)


def _surplus_blocks(tensors: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Blocks in the file that an encoder does not want. A head wants none of them, and leaves them aside."""
    known = {name for name in wanted if _IN_BLOCK.match(name)}
    return [name for name in tensors if known and _IN_BLOCK.match(name) and name not in known]


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
    values = {**config.to_dict(), **(fields or {})}
    write_text(Path(folder) / CONFIG_FILE, json.dumps(values, indent=2) + "\n")


def write_tensors(folder: str | Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write ``model.safetensors`` atomically."""
    with atomic(Path(folder) / WEIGHTS_FILE) as temporary:
        contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
        try:
            # transformers refuses a file that does not say which framework wrote it; the layout is the same for all.
            save_file(contiguous, temporary, metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{error}") from None


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
    for name, array in found.items():
        if name not in shapes or array.shape != shapes[name]:
            raise UserError(
                f"{origin}: {name} has shape {array.shape} but the options ask for {shapes.get(name)}: "
                "weights and options are not of one model"
            )
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
