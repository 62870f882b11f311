"""What a task is: how examples become encodings and targets, and how logits become scores and answers.

A task knows no framework and no encoder. One fine-tuning loop serves every task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from d2lbert.errors import unknown_name
from d2lbert.text import Encoding, WordPiece

# The tasks of the command line; those that are not built yet are named so that the message can say so.
TASKS = ("classification", "pair", "tagging", "question_answering", "multiple_choice")
BUILT = ("classification",)


class Task(Protocol):
    """What the fine-tuning loop asks of a task."""

    labels: tuple[str, ...]

    def encode(self, examples: Sequence[Any], tokenizer: WordPiece, max_length: int) -> list[Encoding]:
        """Return the model's input for each example."""

    def targets(self, examples: Sequence[Any]) -> np.ndarray:
        """Return what the model should answer, (N,) integers."""

    def metrics(self, targets: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        """Score logits (N, C) against targets (N,)."""

    def describe(self, logits: np.ndarray) -> dict[str, Any]:
        """Turn the logits of one example (C,) into an answer for a reader."""


def check_task(name: str) -> None:
    """Refuse a task that does not exist, or not yet."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    if name not in BUILT:
        raise unknown_name("task (it is planned, not built)", name, BUILT)
