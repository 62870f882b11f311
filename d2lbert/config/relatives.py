"""Configurations of BERT's smaller relatives, ALBERT, DistilBERT, a pruned BERT; JSON in Hugging Face's field names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from d2lbert.config.base import MOST_LAYERS, WIDEST, BlockSizes
from d2lbert.config.bert import REQUIRED_VALUES, BertConfig
from d2lbert.config.settings import setting
from d2lbert.errors import UserError


@dataclass(frozen=True)
class AlbertConfig(BertConfig):
    """Sizes of an ALBERT. The defaults are ALBERT-base, version 2 (Lan et al. 2020, table 1)."""

    model_type: ClassVar[str] = "albert"
    architecture: ClassVar[str] = "AlbertModel"
    required_values: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **REQUIRED_VALUES,
        "model_type": ("albert",),
        "inner_group_num": (1,),
    }

    vocab_size: int = 30000
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    embedding_size: int = setting(
        128, "E, the width of the embeddings; a matrix takes them to the hidden size D", at_least=1, at_most=WIDEST
    )
    num_hidden_groups: int = setting(
        1,
        "blocks with weights of their own; the layers share them in groups. 1 in the paper",
        at_least=1,
        at_most=MOST_LAYERS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._divides("num_hidden_groups", "num_hidden_layers", "groups")


@dataclass(frozen=True)
class DistilBertConfig(BertConfig):
    """Sizes of a DistilBERT: half of BERT's layers, no segments (Sanh et al. 2019, section 2).

    The fields have BERT's names, so that all encoders are configured in the same way; ``config.json`` has the names of
    ``transformers``. ``type_vocab_size`` is always 0 and ``layer_norm_eps`` always 1e-12.
    """

    model_type: ClassVar[str] = "distilbert"
    architecture: ClassVar[str] = "DistilBertModel"
    required_values: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "model_type": ("distilbert",),
        "sinusoidal_pos_embds": (False,),
    }
    foreign_names: ClassVar[Mapping[str, str]] = {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
    }

    num_hidden_layers: int = 6
    type_vocab_size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, required in (("type_vocab_size", 0), ("layer_norm_eps", 1e-12)):
            if getattr(self, name) != required:
                raise UserError(f"configuration: {name} is {getattr(self, name)}; it is {required} in every DistilBERT")


@dataclass(frozen=True)
class PrunedBertConfig(BertConfig):
    """Sizes of a BERT that has lost heads, neurons of its feed-forward networks, or rank of its word embeddings.

    ``num_attention_heads`` and ``intermediate_size`` are those that it had before, so that a head is still D / H wide.
    ``transformers`` has no such model: the ``model_type`` tells it so.
    """

    model_type: ClassVar[str] = "pruned_bert"
    architecture: ClassVar[str] = "PrunedBertModel"
    required_values: ClassVar[Mapping[str, tuple[Any, ...]]] = {**REQUIRED_VALUES, "model_type": ("pruned_bert",)}

    heads_per_layer: tuple[int, ...] = setting((), "heads left in each layer, from the first on; empty: all")
    neurons_per_layer: tuple[int, ...] = setting(
        (), "neurons left in the feed-forward network of each layer; empty: all"
    )
    embedding_rank: int = setting(
        0,
        "r, where the word embeddings are a product of (V, r) and (r, D); 0: one matrix (V, D)",
        at_least=0,
        at_most=WIDEST,
    )

    def __post_init__(self) -> None:
        for name in ("heads_per_layer", "neurons_per_layer"):
            if isinstance(getattr(self, name), list):  # JSON has no tuples
                object.__setattr__(self, name, tuple(getattr(self, name)))
        super().__post_init__()
        self._counts("heads_per_layer", self.num_attention_heads)
        self._counts("neurons_per_layer", self.intermediate_size)
        if self.embedding_rank > self.hidden_size:
            raise UserError(
                f"configuration: embedding_rank is {self.embedding_rank}; a matrix of {self.hidden_size} columns has "
                f"no higher rank than {self.hidden_size}"
            )

    @property
    def blocks(self) -> tuple[BlockSizes, ...]:
        """The sizes of the block of each layer, from the first on."""
        heads = self.heads_per_layer or (self.num_attention_heads,) * self.num_hidden_layers
        neurons = self.neurons_per_layer or (self.intermediate_size,) * self.num_hidden_layers
        return tuple(
            dataclasses.replace(self.block, num_heads=count, intermediate_size=width, head_size=self.head_size)
            for count, width in zip(heads, neurons, strict=True)
        )

    def _counts(self, name: str, most: int) -> None:
        """Check that a field is empty, or has a number from 1 to ``most`` for each layer."""
        counts, layers = getattr(self, name), self.num_hidden_layers
        whole = all(type(count) is int and 1 <= count <= most for count in counts)
        if not whole or len(counts) not in (0, layers):
            raise UserError(
                f"configuration: {name} is {list(counts)}; give {layers} whole numbers from 1 to {most}, one for each "
                "layer, or none to keep all"
            )
