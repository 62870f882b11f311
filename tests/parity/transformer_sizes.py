"""Small Transformers for tests, their sizes in one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from d2lbert.config import TransformerConfig

_FIELDS = (
    "source_vocab_size",
    "target_vocab_size",
    "hidden_size",
    "num_encoder_layers",
    "num_decoder_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def transformer_config(sizes: Sequence[int], **changes: Any) -> TransformerConfig:
    """The configuration with these sizes: V of source and target, D, encoder and decoder layers, H, F, positions."""
    return TransformerConfig(**{**dict(zip(_FIELDS, sizes, strict=True)), **changes})
