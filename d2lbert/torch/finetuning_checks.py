"""What is checked before a fine-tuning run begins, so that a mistake costs no epoch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import nn

from d2lbert.errors import UserError, unknown_name
from d2lbert.tasks.base import Input, Loss, Task

# What tasks report beside scores: a threshold says nothing of quality, and of an error the lowest is the best.
_NO_GOALS = ("mean_squared_error", "best_threshold")


def chosen_score(scores: dict[str, float], name: str) -> float:
    """Return the score that chooses the best epoch: the named one, or the first."""
    if name and name not in scores:
        raise unknown_name("score best_by", name, scores)
    return scores[name] if name else next(iter(scores.values()))


def check_inputs(model: nn.Module, train: Sequence[Input], dev: Sequence[Input]) -> None:
    """Refuse what would end in the middle of the training, or after it."""
    for what, inputs in (("train on", train), ("choose the epoch on", dev)):
        if not inputs:
            raise UserError(f"no examples to {what}: give at least one")
    if any(one.target is None for one in train):
        raise UserError("an example to train on has no label: label every one, or leave it out")
    check_lengths(model, [*train, *dev])


def check_lengths(model: nn.Module, inputs: Sequence[Input]) -> None:
    """Refuse texts that are longer than the encoder's positions: packed rows would take what lies behind the table."""
    encoder = getattr(model, "bert", None)
    longest = max((len(encoding) for one in inputs for encoding in one.encodings), default=0)
    if encoder is not None and longest > encoder.config.max_position_embeddings:
        positions = encoder.config.max_position_embeddings
        raise UserError(
            f"a text of {longest} tokens, but the model has {positions} positions: give a smaller max_length"
        )


def check_goal(task: Task, dev: Sequence[Any], inputs: Sequence[Input], name: str) -> None:
    """Refuse a score that dev does not have, or whose highest value is not the best, by scoring zeros."""
    if name in _NO_GOALS:
        raise UserError(f"best_by {name}: its highest value is not the best; choose another score")
    count = len(task.labels)
    blank = {
        Loss.CHOICE: lambda one: np.zeros(len(one.encodings)),
        Loss.TOKENS: lambda one: np.zeros((len(one.encodings[0]), count)),
        Loss.SPAN: lambda one: np.zeros((len(one.encodings[0]), count)),
    }.get(task.loss, lambda one: np.zeros(count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that all answers are the same is no news
        chosen_score(task.score(dev, inputs, [blank(one) for one in inputs]), name)
