"""GluonNLP's parameter names of BERT (its ``BERTModel``, version 0.10), and what Hugging Face calls the same.

Source: Guo et al. 2020, and the file that GluonNLP's ``save_parameters`` writes. The networks are the same, so nothing
but names changes. GluonNLP keeps the positions and the LayerNorm of the embeddings in its encoder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np

from d2lbert.errors import UserError
from d2lbert.weights.bert import PRETRAINING_HEADS

Content = TypeVar("Content")

# GluonNLP's module on the left, Hugging Face's on the right. Weight and bias follow; of a LayerNorm, gamma and beta.
_CELL_MODULES = {
    "attention_cell.proj_query": "attention.self.query",
    "attention_cell.proj_key": "attention.self.key",
    "attention_cell.proj_value": "attention.self.value",
    "proj": "attention.output.dense",
    "layer_norm": "attention.output.LayerNorm",
    "ffn.ffn_1": "intermediate.dense",
    "ffn.ffn_2": "output.dense",
    "ffn.layer_norm": "output.LayerNorm",
}
_MODULES = {
    "word_embed.0": "embeddings.word_embeddings",
    "token_type_embed.0": "embeddings.token_type_embeddings",
    "encoder.layer_norm": "embeddings.LayerNorm",
    "pooler": "pooler.dense",
    "classifier": "cls.seq_relationship",
    "decoder.0": "cls.predictions.transform.dense",
    "decoder.2": "cls.predictions.transform.LayerNorm",
    "decoder.3": "cls.predictions.decoder",
}
_WHOLE_NAMES = {
    "encoder.position_weight": "embeddings.position_embeddings.weight",
    "decoder.3.bias": PRETRAINING_HEADS["decoder_bias"],
}
_KINDS = {"weight": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_CELL = re.compile(r"encoder\.transformer_cells\.(0|[1-9][0-9]*)\.(.+)")

# Two names of one matrix; a file that was saved with deduplicate=True has only the second.
_WORDS, _OUTPUT_WORDS = "embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"


def hugging_face_name(name: str) -> str | None:
    """Return what Hugging Face calls a parameter of GluonNLP's BERT; None if the BERT has no such parameter."""
    if name in _WHOLE_NAMES:
        return _WHOLE_NAMES[name]
    module, _, kind = name.rpartition(".")
    cell = _CELL.fullmatch(module)
    modules, prefix = (_CELL_MODULES, f"encoder.layer.{cell[1]}.") if cell else (_MODULES, "")
    theirs = modules.get(cell[2] if cell else module)
    is_norm = theirs is not None and theirs.endswith("LayerNorm")
    if theirs is None or kind not in _KINDS or (kind in ("gamma", "beta")) != is_norm:
        return None
    return f"{prefix}{theirs}.{_KINDS[kind]}"


def by_hugging_face_names(tensors: Mapping[str, Content], origin: str | Path) -> dict[str, Content]:
    """Return what a file of GluonNLP's BERT holds, by Hugging Face's names.

    Args:
        tensors: arrays, or what a header says of them, by GluonNLP's names.
        origin: the file, for messages.

    Returns:
        the same, the word embeddings always under their own name.

    Raises:
        UserError: a name is none of GluonNLP's BERT.
    """
    renamed: dict[str, Content] = {}
    for name, content in tensors.items():
        theirs = hugging_face_name(name)
        if theirs is None:
            raise UserError(
                f"{origin}: {name!r} is no parameter of GluonNLP's BERTModel: give a file that its save_parameters "
                "has written, without the layers of a task"
            )
        renamed[theirs] = content
    if _OUTPUT_WORDS in renamed:
        renamed.setdefault(_WORDS, renamed[_OUTPUT_WORDS])
    return renamed


def without_second_copy(tensors: Mapping[str, np.ndarray], origin: str | Path) -> dict[str, np.ndarray]:
    """Return the tensors without the decoder's copy of the word embeddings, which the models here take from there.

    Args:
        tensors: by Hugging Face's names.
        origin: the file, for messages.

    Raises:
        UserError: the two are not equal.
    """
    if _OUTPUT_WORDS in tensors and not np.array_equal(tensors[_OUTPUT_WORDS], tensors[_WORDS]):
        raise UserError(
            f"{origin}: its decoder has other vectors of words than its embeddings have, and BERT has one table of "
            "them: the file is damaged or of another model"
        )
    return {name: tensor for name, tensor in tensors.items() if name != _OUTPUT_WORDS}
