"""Hugging Face's parameter names of ALBERT and DistilBERT, and those of a pruned BERT."""

from __future__ import annotations

from collections.abc import Mapping

from d2lbert.config.relatives import AlbertConfig, DistilBertConfig, PrunedBertConfig
from d2lbert.weights.bert import EMBEDDINGS, bert_names
from d2lbert.weights.shapes import albert_shapes, distilbert_shapes, pruned_bert_shapes

# Our name on the left, Hugging Face's on the right. Weight and bias follow.
_ALBERT_BLOCK = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.output": "attention.dense",
    "attention_norm": "attention.LayerNorm",
    "feed_forward.expand": "ffn",
    "feed_forward.project": "ffn_output",
    "feed_forward_norm": "full_layer_layer_norm",
}
_DISTILBERT_BLOCK = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.expand": "ffn.lin1",
    "feed_forward.project": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}


def albert_names(num_hidden_groups: int) -> dict[str, str]:
    """Return the table from our parameter names of an ALBERT to Hugging Face's."""
    modules = {"embeddings.project": "encoder.embedding_hidden_mapping_in", "pooler": "pooler"}
    for group in range(num_hidden_groups):
        theirs = f"encoder.albert_layer_groups.{group}.albert_layers.0"
        modules |= _block_names(f"encoder.blocks.{group}", theirs, _ALBERT_BLOCK)
    return EMBEDDINGS | _with_kinds(modules)


def distilbert_names(num_hidden_layers: int) -> dict[str, str]:
    """Return the table from our parameter names of a DistilBERT to Hugging Face's."""
    modules: dict[str, str] = {}
    for block in range(num_hidden_layers):
        modules |= _block_names(f"encoder.blocks.{block}", f"transformer.layer.{block}", _DISTILBERT_BLOCK)
    embeddings = {ours: theirs for ours, theirs in EMBEDDINGS.items() if "segment" not in ours}
    return embeddings | _with_kinds(modules)


def pruned_bert_names(config: PrunedBertConfig) -> dict[str, str]:
    """Return the table from our parameter names of a pruned BERT to BERT's; two factors have names of their own."""
    names = bert_names(config.num_hidden_layers)
    if config.embedding_rank:
        whole = names.pop("embeddings.word.weight").removesuffix(".weight")
        names |= {f"embeddings.word.{part}.weight": f"{whole}.{part}.weight" for part in ("narrow", "widen")}
    return names


def albert_file_shapes(config: AlbertConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an ALBERT under Hugging Face's names."""
    shapes = albert_shapes(config)
    return {theirs: shapes[ours] for ours, theirs in albert_names(config.num_hidden_groups).items()}


def distilbert_file_shapes(config: DistilBertConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a DistilBERT under Hugging Face's names."""
    shapes = distilbert_shapes(config)
    return {theirs: shapes[ours] for ours, theirs in distilbert_names(config.num_hidden_layers).items()}


def pruned_bert_file_shapes(config: PrunedBertConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a pruned BERT under the names of its file."""
    shapes = pruned_bert_shapes(config)
    return {theirs: shapes[ours] for ours, theirs in pruned_bert_names(config).items()}


def _block_names(ours: str, theirs: str, modules: Mapping[str, str]) -> dict[str, str]:
    """Return the names of a block's modules, each behind the prefix of the block."""
    return {f"{ours}.{inner}": f"{theirs}.{outer}" for inner, outer in modules.items()}


def _with_kinds(modules: Mapping[str, str]) -> dict[str, str]:
    return {f"{ours}.{kind}": f"{theirs}.{kind}" for ours, theirs in modules.items() for kind in ("weight", "bias")}
