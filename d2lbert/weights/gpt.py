"""GPT-2's weights under Hugging Face's names, and under ours: split, transposed, and back.

Hugging Face kept the layout of the first release (Radford et al. 2019). There a linear layer is a matrix of shape
(inputs, outputs), the transpose of PyTorch's, and one matrix (D, 3 D) holds the queries, keys and values side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from d2lbert.weights.folder import check_tensors

PREFIX = "transformer."  # of every tensor in a file of GPT2LMHeadModel, of none in a file of GPT2Model

_NORMS = {"attention_norm": "ln_1", "feed_forward_norm": "ln_2"}
_LINEAR = {
    "attention.output": "attn.c_proj",
    "feed_forward.expand": "mlp.c_fc",
    "feed_forward.project": "mlp.c_proj",
}
_THREE = ("attention.query", "attention.key", "attention.value")
_TOP = {
    "embeddings.word.weight": "wte.weight",
    "embeddings.position.weight": "wpe.weight",
    "encoder.norm.weight": "ln_f.weight",
    "encoder.norm.bias": "ln_f.bias",
}
# The mask that older files carry in every block, and the output layer, which is the word embeddings once more.
_LEFT_ASIDE = (".attn.bias", ".attn.masked_bias", "lm_head.weight")


def to_hugging_face(parameters: Mapping[str, np.ndarray], num_layers: int) -> dict[str, np.ndarray]:
    """Turn our parameters into the tensors that ``transformers.GPT2LMHeadModel`` has."""
    found = {theirs: parameters[ours] for ours, theirs in _TOP.items()}
    for block in range(num_layers):
        ours_, theirs_ = f"encoder.blocks.{block}", f"h.{block}"
        for kind in ("weight", "bias"):
            for ours, theirs in _NORMS.items():
                found[f"{theirs_}.{theirs}.{kind}"] = parameters[f"{ours_}.{ours}.{kind}"]
            for ours, theirs in _LINEAR.items():
                found[f"{theirs_}.{theirs}.{kind}"] = parameters[f"{ours_}.{ours}.{kind}"].T
            three = [parameters[f"{ours_}.{ours}.{kind}"].T for ours in _THREE]
            found[f"{theirs_}.attn.c_attn.{kind}"] = np.concatenate(three, axis=-1)
    return {PREFIX + name: array for name, array in found.items()}


def from_hugging_face(
    tensors: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]], num_layers: int, origin: str | Path
) -> dict[str, np.ndarray]:
    """Turn the tensors of a GPT-2 file into our parameters.

    Args:
        tensors: what the file holds.
        shapes: our name -> the shape that the configuration asks for.
        origin: the folder, for messages.

    Raises:
        UserError: a tensor is missing, too many, or of another shape.
    """
    blank = {name: np.empty(shape, dtype=bool) for name, shape in shapes.items()}
    wanted = {name.removeprefix(PREFIX): array.shape for name, array in to_hugging_face(blank, num_layers).items()}
    kept = {name.removeprefix(PREFIX): array for name, array in tensors.items() if not name.endswith(_LEFT_ASIDE)}
    check_tensors(kept, wanted, origin)
    parameters = {ours: kept[theirs] for ours, theirs in _TOP.items()}
    for block in range(num_layers):
        ours_, theirs_ = f"encoder.blocks.{block}", f"h.{block}"
        for kind in ("weight", "bias"):
            for ours, theirs in _NORMS.items():
                parameters[f"{ours_}.{ours}.{kind}"] = kept[f"{theirs_}.{theirs}.{kind}"]
            for ours, theirs in _LINEAR.items():
                parameters[f"{ours_}.{ours}.{kind}"] = kept[f"{theirs_}.{theirs}.{kind}"].T
            three = np.split(kept[f"{theirs_}.attn.c_attn.{kind}"], 3, axis=-1)
            for ours, part in zip(_THREE, three, strict=True):
                parameters[f"{ours_}.{ours}.{kind}"] = part.T
    return parameters
