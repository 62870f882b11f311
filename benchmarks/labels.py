"""What a smaller model changes of the labels that a model gives: the difference of two accuracies, and its error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.int8_sides import Engine, batches_of
from d2lbert.data.batching import pack


def labels_of(engine: Engine, encodings: list[Any]) -> np.ndarray:
    """Return the number of the label that an engine gives to each text."""
    return np.concatenate([engine(pack(batch)) for batch in batches_of(encodings)]).argmax(-1)


def compared(found: np.ndarray, exact: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Return the accuracy of some labels, and how they differ from those of the exact model.

    Of the sentences whose label becomes right or wrong follows the error of the difference (McNemar 1947).
    """
    lost = int(((exact == truth) & (found != truth)).sum())
    won = int(((exact != truth) & (found == truth)).sum())
    n = len(truth)
    difference = (won - lost) / n
    return {
        "accuracy": float((found == truth).mean()),
        "changed": int((found != exact).sum()),
        "right before": lost,
        "right after": won,
        "difference": difference,
        "standard_error_of_difference": math.sqrt((won + lost) / n - difference**2) / math.sqrt(n),
    }
