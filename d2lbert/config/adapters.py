"""Sizes of low-rank adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from d2lbert.config.settings import Settings, setting

# Which linear layers get an adapter: the end of their names in our encoders.
TARGETS = {
    "attention": ("attention.query", "attention.value"),  # what the paper's experiments adapt (Hu et al. 2022, 4.2)
    "all": (
        "attention.query",
        "attention.key",
        "attention.value",
        "attention.output",
        "feed_forward.expand",
        "feed_forward.project",
        "pooler",
    ),
}


@dataclass(frozen=True)
class AdapterConfig(Settings):
    """Sizes of the low-rank adapters of a model (Hu et al. 2022)."""

    kind: ClassVar[str] = "adapters"

    rank: int = setting(8, "r, the rows of A and the columns of B", above=0)
    alpha: float = setting(16.0, "the update B A is multiplied by alpha / rank", above=0)
    targets: str = setting(
        "all", "which layers: attention (queries and values) or all linear layers", one_of=tuple(TARGETS)
    )
