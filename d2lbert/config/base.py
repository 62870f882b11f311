"""Configurations: frozen dataclasses whose field names are those of Hugging Face's ``config.json``.

A configuration knows the sizes of a network and nothing else. It rejects unknown fields, checks that its sizes fit
together, and reads and writes JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from d2lbert.config.settings import Settings
from d2lbert.errors import UserError, unknown_name

ACTIVATIONS = ("gelu", "gelu_new", "relu")
# The sizes of a block under the names of BERT's config.json, in the order of the fields of BlockSizes.
BLOCK_FIELDS = (
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "layer_norm_eps",
)
# No published model comes near these; a larger number in a file is a mistake, and would fill the memory or the day.
MOST_LAYERS = 1_000
MOST_POSITIONS = 100_000
MOST_PIECES = 10_000_000
WIDEST = 1_000_000
ACTIVATION = "gelu (exact, with erf), gelu_new (the tanh approximation) or relu"


@dataclass(frozen=True)
class ModelConfig(Settings):
    """What the configurations of all models share: copies with changes, no unknown fields, checks of sizes."""

    kind: ClassVar[str] = "configuration"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Build a configuration from a dictionary of its fields.

        Raises:
            UserError: a field is unknown, or a value is not allowed.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise unknown_name("configuration field", name, known)
        return cls(**values)

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def _block(self, fields: Sequence[str], norm_first: bool = False) -> BlockSizes:
        """Return the sizes of a block, from our fields in the order of those of :class:`BlockSizes`."""
        sizes = BlockSizes(*(getattr(self, name) for name in fields))
        return dataclasses.replace(sizes, norm_first=norm_first)

    def _divides(self, parts: str, whole: str, what: str = "heads") -> None:
        if getattr(self, whole) % getattr(self, parts):
            raise UserError(
                f"configuration: {getattr(self, parts)} {what} do not divide {whole} {getattr(self, whole)}; "
                f"choose {parts} so that they do"
            )

    def _ids_below(self, size: int, *names: str) -> None:
        for name in names:
            if not 0 <= getattr(self, name) < size:
                raise UserError(
                    f"configuration: {name} is {getattr(self, name)}, outside the vocabulary of {size}; "
                    "give the id of one of its tokens"
                )


@dataclass(frozen=True)
class BlockSizes:
    """Sizes of a Transformer block, encoder or decoder, in one argument. A configuration makes it: ``config.block``.

    Fields:
        hidden_size: D.
        num_heads: H; divides D, unless ``head_size`` is given.
        intermediate_size: F, the width inside the feed-forward network.
        activation: a name of ``ACTIVATIONS``.
        dropout: rate of dropout on the output of each sublayer, before the residual addition.
        attention_dropout: rate of dropout on the attention weights.
        layer_norm_eps: the small constant in LayerNorm; 1e-12 in BERT.
        norm_first: False for LayerNorm after each sublayer (post-LN, as in BERT), True for before (pre-LN, GPT-2).
        head_size: K, the width of one head; D / H by default. Another K is that of a block which has lost heads.
    """

    hidden_size: int
    num_heads: int
    intermediate_size: int
    activation: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    layer_norm_eps: float = 1e-5
    norm_first: bool = False
    head_size: int | None = None

    @property
    def attention_size(self) -> int:
        """H K, the width of all heads side by side: D, unless heads were removed."""
        return self.num_heads * self.head_size if self.head_size else self.hidden_size


def refuse_other_values(
    path: str | Path, values: dict[str, Any], required: Mapping[str, tuple[Any, ...]], kind: str
) -> None:
    """Check that a foreign ``config.json`` describes a network that this package computes.

    Args:
        path: the file, for messages.
        values: its content.
        required: field -> the values that we compute. A field may be missing.
        kind: the architecture, for messages.

    Raises:
        UserError: a field has another value. The message names the first allowed one.
    """
    for name, allowed in required.items():
        if name in values and values[name] not in allowed:
            raise UserError(
                f"{path}: {name} is {values[name]!r}, which d2lbert does not compute for {kind}; "
                f"use a checkpoint where it is {allowed[0]!r}"
            )
