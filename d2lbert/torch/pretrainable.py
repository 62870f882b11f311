"""What a model must be able to do so that the pretraining loop can train it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn


class Pretrainable(nn.Module, ABC):
    """A model that answers the questions of its data, such as BERT those of ``PretrainingData``.

    Fields:
        config: its sizes, a frozen dataclass.
    """

    config: Any

    @abstractmethod
    def answer(self, batch: Any) -> dict[str, Tensor]:
        """Return logits (N, C) for each question of a batch, by its name, in the order of the batch's answers.

        Args:
            batch: of the data that belong to the model, still in NumPy.
        """

    @classmethod
    @abstractmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a folder that :meth:`save_pretrained` has written."""

    @abstractmethod
    def save_pretrained(self, folder: str | Path) -> None:
        """Write a model folder."""


class Answering(nn.Module):
    """A model whose forward pass is its answers: what ``DistributedDataParallel`` can wrap."""

    def __init__(self, model: Pretrainable) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Any) -> dict[str, Tensor]:
        """Return what :meth:`Pretrainable.answer` returns."""
        return self.model.answer(batch)
