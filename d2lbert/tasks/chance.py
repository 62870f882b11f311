"""What a model that has learned nothing would score, to tell a user whose model does no better."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from d2lbert.tasks.base import Loss, Task
from d2lbert.tasks.parts_of_speech import PartsOfSpeech

_CURE = "more epochs, smaller batches or another learning rate may help, or more examples"


def complaint_at_chance(task: Task, dev: Sequence[Any], scores: Mapping[str, float]) -> str:
    """Return a sentence if the scores are not clearly above those of a model that has learned nothing, else "".

    Clearly is by more than one standard error of such a model on so many examples.

    Args:
        task: what was learned.
        dev: labelled examples that were scored.
        scores: of the task, as :meth:`d2lbert.tasks.base.Task.score` returns them.
    """
    if task.loss is Loss.TOKENS and not isinstance(task, PartsOfSpeech):
        return "" if scores["f1"] else f"not one entity of dev is found: {_CURE}"
    if task.loss in (Loss.SPAN, Loss.SOFT_SPAN):
        return "" if scores["exact_match"] else f"not one question of dev is answered exactly: {_CURE}"
    if task.loss is Loss.SCORE:
        name, level, error, what = "spearman", 0.0, 1 / math.sqrt(max(1, len(dev) - 1)), "that of guessing"
    else:
        name = "accuracy"
        if task.loss is Loss.CHOICE:
            level, count = float(np.mean([1 / len(example.choices) for example in dev])), len(dev)
            what = "that of guessing"
        else:
            labels = _labels(task, dev)
            level, count = max(Counter(labels).values()) / len(labels), len(labels)
            what = "the share of the commonest label"
        error = math.sqrt(level * (1 - level) / count)
    if scores[name] > level + error or level == 1:
        return ""
    return f"dev {name} {scores[name]:.2f} is not clearly above {level:.2f} ± {error:.2f}, {what}: {_CURE}"


def _labels(task: Task, dev: Sequence[Any]) -> list[str]:
    """Return the labels of the examples, or the parts of speech of all their words."""
    if isinstance(task, PartsOfSpeech):
        return [tag for example in dev for tag in example.tags]
    return [example.label for example in dev]
