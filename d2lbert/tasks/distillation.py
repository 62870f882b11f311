"""Distillation: a student learns a task from what a teacher says of each example, not from the label alone.

The task wraps another one, which encodes, scores and predicts as before. Only what training minimizes is new, so the
fine-tuning loop stays the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from d2lbert.errors import UserError
from d2lbert.tasks.base import IGNORED, Input, Loss, SoftTarget, Task
from d2lbert.text import Tokenizer


@dataclass(frozen=True, slots=True)
class Taught:
    """An example and what a teacher says of it.

    Fields:
        example: of the type that the task takes, with or without a label.
        logits: the teacher's, in the order of the task's labels; where it looks for a span, an array (length, 2) for
            each window that it read.
    """

    example: Any
    logits: tuple[Any, ...]


class Distillation(Task):
    """Learn from the teacher's probabilities at a temperature, and from the labels (Hinton et al. 2015).

    Examples to train on are :class:`Taught`; those that are scored or predicted may be plain.

    Args:
        task: gives one label to each text or pair, such as a
            :class:`~d2lbert.tasks.classification.Classification`.
        temperature: what all logits are divided by. The higher it is, the more the small probabilities count.
        weight: of the teacher in the loss, from 0 to 1; the label has the rest.

    Raises:
        UserError: the task has no labels of texts, or a number is out of range.
    """

    loss = Loss.SOFT
    teaches = Loss.LABEL  # the loss of the tasks that can be distilled
    refusal = "only a task with one label for each text can be distilled: give a classification"

    def __init__(self, task: Task, temperature: float = 2.0, weight: float = 0.5) -> None:
        if task.loss is not self.teaches:
            raise UserError(self.refusal)
        if not temperature > 0:
            raise UserError(f"the temperature is {temperature}: give a number above 0")
        if not 0 <= weight <= 1:
            raise UserError(f"the weight of the teacher is {weight}: give a number from 0 to 1")
        self.task, self.temperature, self.weight = task, float(temperature), float(weight)
        self.labels = task.labels

    def target(self, logits: np.ndarray, label: Any) -> Any:
        """Return what the loss takes, from the teacher's logits and what is right, as ``SoftTarget`` has them."""
        return SoftTarget(logits, label, self.temperature, self.weight)

    def inputs(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each example. A plain example, which no teacher has seen, has no target.

        Raises:
            UserError: the teacher's logits do not fit the labels, or as for the task itself.
        """
        inputs = self.task.inputs(_plain(examples), tokenizer, max_length)
        return [dataclasses.replace(item, target=self._target(examples[item.example], item.target)) for item in inputs]

    def score(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return the scores of the task itself: against the labels, not against the teacher."""
        return self.task.score(_plain(examples), inputs, outputs)

    def predictions(
        self, examples: Sequence[Any], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return the predictions of the task itself."""
        return self.task.predictions(_plain(examples), inputs, outputs)

    def settle(self, model: Any, record: Mapping[str, float]) -> None:
        """Store in the student what the task itself would store."""
        self.task.settle(model, record)

    def identity(self) -> dict[str, Any]:
        """Return temperature and weight: a run goes on with the same ones alone."""
        return {"temperature": self.temperature, "weight": self.weight}

    def _target(self, example: Any, label: Any) -> Any:
        if not isinstance(example, Taught):
            return None
        logits = np.asarray(example.logits, dtype=np.float32)
        if logits.shape != (len(self.labels),) or not np.isfinite(logits).all():
            raise UserError(
                f"the teacher's logits {example.logits} are no {len(self.labels)} numbers: "
                f"give one for each of {', '.join(self.labels)}"
            )
        return self.target(logits, IGNORED if label is None else int(label))


class LogitMatching(Distillation):
    """Learn the teacher's logits by their squared error; labels count nothing (Ba and Caruana 2014, Tang et al. 2019).

    Args:
        task: as for :class:`Distillation`.
    """

    loss = Loss.LOGITS

    def __init__(self, task: Task) -> None:
        super().__init__(task, temperature=1.0, weight=1.0)

    def target(self, logits: np.ndarray, label: Any) -> np.ndarray:
        """Return the teacher's logits (C,)."""
        return logits


class SpanDistillation(Distillation):
    """Learn where an answer starts and ends from the teacher's probabilities of each token, and from the right answer.

    The student must read the windows that the teacher has read: give both one task, tokenizer and ``max_length``.

    Args:
        task: finds spans: a :class:`~d2lbert.tasks.question_answering.QuestionAnswering`.
        temperature, weight: as for :class:`Distillation`.
    """

    loss = Loss.SOFT_SPAN
    teaches = Loss.SPAN
    refusal = "only a task that looks for a span can be distilled so: give a QuestionAnswering"

    def inputs(self, examples: Sequence[Any], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each window. Those of a plain example have no target.

        Raises:
            UserError: the teacher has read other windows, or as for the task itself.
        """
        windows: dict[int, list[Input]] = {}
        for item in self.task.inputs(_plain(examples), tokenizer, max_length):
            windows.setdefault(item.example, []).append(item)
        return [
            dataclasses.replace(item, target=target)
            for number, own in windows.items()
            for item, target in zip(own, self._targets(examples[number], own), strict=True)
        ]

    def _targets(self, example: Any, windows: Sequence[Input]) -> list[Any]:
        if not isinstance(example, Taught):
            return [None] * len(windows)
        lengths = [len(item.encodings[0]) for item in windows]
        found = [np.asarray(logits, dtype=np.float32) for logits in example.logits]
        if [logits.shape for logits in found] != [(length, 2) for length in lengths]:
            raise UserError(
                f"the teacher read windows of {[len(logits) for logits in found]} tokens, the student reads {lengths}: "
                "give both one task, one tokenizer and one max_length"
            )
        if not all(np.isfinite(logits).all() for logits in found):
            raise UserError("the teacher's logits are NaN or infinite: train the teacher anew")
        unknown = np.array([IGNORED, IGNORED])
        places = [unknown if item.target is None else item.target for item in windows]
        return [self.target(*pair) for pair in zip(found, places, strict=True)]


def _plain(examples: Sequence[Any]) -> list[Any]:
    return [example.example if isinstance(example, Taught) else example for example in examples]
