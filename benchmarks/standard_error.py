"""How far a score would scatter over other examples of the same kind: the jackknife over groups of examples.

Leave out one group of examples after another and score the rest. With g groups and scores t_1 to t_g, the standard
error is sqrt((g - 1) / g * sum((t_i - mean)^2)). It holds for any smooth score: accuracy, F1, correlations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from d2lbert.tasks.base import Input, Loss, Task

GROUPS = 20


def standard_error(
    task: Task, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray], score: str
) -> float:
    """Return the standard error of a score, as a difference of scores.

    Args:
        task: scores the outputs.
        examples, inputs, outputs: what is scored; at least two examples.
        score: the name of the score.
    """
    groups = np.random.default_rng(0).permutation(len(examples)) % min(GROUPS, len(examples))
    numbers = range(groups.max() + 1)

    def scored(chosen: np.ndarray) -> float:
        return task.score(*_subset(examples, inputs, outputs, chosen))[score]

    if task.loss is Loss.SPAN:  # a mean over questions, and slow: score each group once
        sums = np.array([scored(groups == number) * (groups == number).sum() for number in numbers])
        without = [(sums.sum() - sums[number]) / (groups != number).sum() for number in numbers]
    else:
        without = [scored(groups != number) for number in numbers]
    return math.sqrt((len(without) - 1) * float(np.var(without)))


def paired_difference(
    ours: Sequence[Sequence[float]], others: Sequence[Sequence[float]], groups: Sequence[str] | None = None
) -> dict[str, float]:
    """Return the mean difference over the examples, each counted by its mean over the seeds, and its standard error.

    The error tells of other examples, not of other seeds.

    Args:
        ours, others: one sequence for each seed, with the score of each example.
        groups: of each example, where those of a group are alike, such as questions about one text: what is added up
            over a group then counts as one. By default each example stands for itself.
    """
    gain = np.mean(ours, axis=0) - np.mean(others, axis=0)  # (examples,)
    numbers = np.arange(len(gain)) if groups is None else np.unique(groups, return_inverse=True)[1]
    sums = np.bincount(numbers, weights=gain - gain.mean())
    error = float(np.sqrt((sums**2).sum()) / len(gain))
    return {"difference": float(gain.mean()), "standard_error_of_difference": error}


def _subset(
    examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray], chosen: np.ndarray
) -> tuple[list[Any], list[Input], list[np.ndarray]]:
    """Return the chosen examples, and their inputs and outputs; inputs name their example by its new index."""
    new = np.cumsum(chosen) - 1
    kept = [number for number, item in enumerate(inputs) if chosen[item.example]]
    return (
        [example for example, keep in zip(examples, chosen, strict=True) if keep],
        [dataclasses.replace(inputs[number], example=int(new[inputs[number].example])) for number in kept],
        [outputs[number] for number in kept],
    )
