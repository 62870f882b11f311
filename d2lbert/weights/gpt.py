"""Convert GPT-2's weights between Hugging Face's names and layout and ours.

Hugging Face kept the layout of the first release (Radford et al. 2019). There a linear layer is a matrix of shape
(inputs, outputs), the transpose of PyTorch's, and one matrix (D, 3 D) holds the projections to queries, keys and values
side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from d2lbert.config.gpt import GptConfig
from d2lbert.errors import UserError
from d2lbert.weights.folder import check_tensors
from d2lbert.weights.header import TensorInfo
from d2lbert.weights.shapes import gpt_shapes

PREFIX = "transformer."  # of every tensor in a file of GPT2LMHeadModel, of none in a file of GPT2Model

_NORMS = {"attention_norm": "ln_1", "feed_forward_norm": "ln_2"}
_LINEAR = {
    "attention.output": "attn.c_proj",
    "feed_forward.expand": "mlp.c_fc",
    "feed_forward.project": "mlp.c_proj",
}
_QKV = ("attention.query", "attention.key", "attention.value")
_TOP = {
    "embeddings.word.weight": "wte.weight",
    "embeddings.position.weight": "wpe.weight",
    "encoder.norm.weight": "ln_f.weight",
    "encoder.norm.bias": "ln_f.bias",
}
# The mask that older files have in every block, and the output layer, which equals the word embeddings.
_IGNORED = (".attn.bias", ".attn.masked_bias", "lm_head.weight")


def to_hugging_face(parameters: Mapping[str, np.ndarray], num_layers: int) -> dict[str, np.ndarray]:
    """Turn our parameters into the tensors that ``transformers.GPT2LMHeadModel`` has."""
    tensors = {theirs: parameters[ours] for ours, theirs in _TOP.items()}
    for block in range(num_layers):
        our_block, their_block = f"encoder.blocks.{block}", f"h.{block}"
        for kind in ("weight", "bias"):
            for ours, theirs in _NORMS.items():
                tensors[f"{their_block}.{theirs}.{kind}"] = parameters[f"{our_block}.{ours}.{kind}"]
            for ours, theirs in _LINEAR.items():
                tensors[f"{their_block}.{theirs}.{kind}"] = parameters[f"{our_block}.{ours}.{kind}"].T
            qkv = [parameters[f"{our_block}.{ours}.{kind}"].T for ours in _QKV]
            tensors[f"{their_block}.attn.c_attn.{kind}"] = np.concatenate(qkv, axis=-1)
    return {PREFIX + name: array for name, array in tensors.items()}


def from_hugging_face(
    tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], num_layers: int, origin: str | Path
) -> dict[str, np.ndarray]:
    """Turn the tensors of a GPT-2 file into our parameters.

    Args:
        tensors: what the file holds.
        shapes: our name -> the shape that the configuration requires.
        num_layers: blocks of the model.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing, has another shape or other numbers, or does not belong to the model.
    """
    kept = _check(tensors, shapes, num_layers, origin)
    parameters = {ours: kept[theirs] for ours, theirs in _TOP.items()}
    for block in range(num_layers):
        our_block, their_block = f"encoder.blocks.{block}", f"h.{block}"
        for kind in ("weight", "bias"):
            for ours, theirs in _NORMS.items():
                parameters[f"{our_block}.{ours}.{kind}"] = kept[f"{their_block}.{theirs}.{kind}"]
            for ours, theirs in _LINEAR.items():
                parameters[f"{our_block}.{ours}.{kind}"] = kept[f"{their_block}.{theirs}.{kind}"].T
            qkv = np.split(kept[f"{their_block}.attn.c_attn.{kind}"], 3, axis=-1)
            for ours, part in zip(_QKV, qkv, strict=True):
                parameters[f"{our_block}.{ours}.{kind}"] = part.T
    return parameters


def gpt_file_shapes(config: GptConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a GPT-2 under Hugging Face's names, without the prefix."""
    return _their_shapes(gpt_shapes(config), config.n_layer)


def check_gpt_header(header: Mapping[str, TensorInfo], config: GptConfig, origin: str | Path) -> None:
    """Check the header of a GPT-2 file as :func:`from_hugging_face` checks its tensors, before a model is built."""
    _check(header, gpt_shapes(config), config.n_layer, origin)


def _check(
    tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], num_layers: int, origin: str | Path
) -> dict[str, Any]:
    """Return the tensors that belong to the model, without the prefix, once they are seen to fit."""
    kept: dict[str, Any] = {}
    for name, tensor in tensors.items():
        short = name.removeprefix(PREFIX)
        if short in kept:
            raise UserError(f"{origin} holds {short!r} twice, with and without {PREFIX!r}: remove the wrong one")
        if not name.endswith(_IGNORED):
            kept[short] = tensor
    check_tensors(kept, _their_shapes(shapes, num_layers), origin)
    return kept


def _their_shapes(shapes: Mapping[str, tuple[int, ...]], num_layers: int) -> dict[str, tuple[int, ...]]:
    """Turn the shapes of our parameters into those of :func:`to_hugging_face`, without the prefix."""
    theirs = {name: shapes[ours] for ours, name in _TOP.items()}
    for block in range(num_layers):
        our_block, their_block = f"encoder.blocks.{block}", f"h.{block}"
        for kind in ("weight", "bias"):
            for ours, name in {**_NORMS, **_LINEAR}.items():
                theirs[f"{their_block}.{name}.{kind}"] = shapes[f"{our_block}.{ours}.{kind}"][::-1]
            outputs, *inputs = shapes[f"{our_block}.attention.query.{kind}"]
            theirs[f"{their_block}.attn.c_attn.{kind}"] = (*inputs, 3 * outputs)
    return theirs
