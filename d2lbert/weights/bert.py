"""Hugging Face's parameter names of BERT."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from d2lbert.config.base import refuse_other_values
from d2lbert.config.bert import BertConfig
from d2lbert.weights.shapes import bert_shapes

# Our name on the left, Hugging Face's on the right. Weight and bias follow.
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
# What ``config.json`` says of a model with both heads of pretraining, besides the sizes.
PRETRAINING_FIELDS = {"architectures": ["BertForPreTraining"], "tie_word_embeddings": True}
# Of the two heads of pretraining, whole names. The decoder's weight is that of the word embeddings.
PRETRAINING_HEADS = {
    "dense.weight": "cls.predictions.transform.dense.weight",
    "dense.bias": "cls.predictions.transform.dense.bias",
    "norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "decoder_bias": "cls.predictions.bias",
    "next_sentence.weight": "cls.seq_relationship.weight",
    "next_sentence.bias": "cls.seq_relationship.bias",
}
_DECODER_BIAS = "cls.predictions.decoder.bias"  # another name of the same tensor; a file may have either


def refuse_untied_output(config_json: Path) -> None:
    """Refuse a ``config.json`` of a model whose output layer is a matrix of its own, not that of the word embeddings.

    Only the head for masked words has an output layer: an encoder or a classifier of such a folder is whole without it.

    Raises:
        UserError: it says so, or cannot be read.
    """
    from d2lbert.storage.files import read_json

    refuse_other_values(config_json, read_json(config_json), {"tie_word_embeddings": (True,)}, "the head of a BERT")


def with_decoder_bias(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors of a file with the decoder's bias under its first name, whichever the file has."""
    if _DECODER_BIAS not in tensors:
        return dict(tensors)
    return {PRETRAINING_HEADS["decoder_bias"]: tensors[_DECODER_BIAS], **tensors}


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


def bert_file_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a BERT encoder under Hugging Face's names."""
    shapes = bert_shapes(config)
    return {theirs: shapes[ours] for ours, theirs in bert_names(config.num_hidden_layers).items()}


def has_pooler(tensors: Mapping[str, np.ndarray]) -> bool:
    """Whether the tensors of an encoder, under Hugging Face's names, hold a pooler."""
    return any(name.startswith("pooler.") for name in tensors)


def with_pooler(
    tensors: Mapping[str, np.ndarray], initial: Callable[[], Mapping[str, np.ndarray]], origin: str | Path
) -> dict[str, np.ndarray]:
    """Return the tensors of an encoder; if the file has no pooler, warn and add the pooler of a new model.

    Checkpoints of models that were trained without a sentence task have no pooler.

    Args:
        tensors: what the file holds, under Hugging Face's names.
        initial: returns the tensors of a new model, under Hugging Face's names.
        origin: the folder, for the warning.
    """
    if has_pooler(tensors):
        return dict(tensors)
    warnings.warn(
        f"{origin} has no pooler: .pooled starts from random weights and means nothing before it is trained",
        stacklevel=4,
    )
    return {**{name: array for name, array in initial().items() if name.startswith("pooler.")}, **tensors}
