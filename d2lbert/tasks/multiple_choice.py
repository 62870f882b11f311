"""Choose one of several texts: the plausible alternative, the next sentence (Devlin et al. 2019, section 4.4).

The model reads each choice with the premise, ``[CLS] premise [SEP] choice [SEP]``, and gives it one number. The
softmax is taken over the choices of a question, so a question may have any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from d2lbert.data.examples import ChoiceQuestion
from d2lbert.errors import UserError
from d2lbert.tasks.base import Input, Loss, Task, encode_texts, softmax
from d2lbert.text import Tokenizer


class MultipleChoice(Task):
    """Choose the text that fits a premise best. The model has a single output, the score of a text."""

    loss = Loss.CHOICE
    labels: tuple[str, ...] = ("choice",)  # the one output, under this name in config.json

    def inputs(self, examples: Sequence[ChoiceQuestion], tokenizer: Tokenizer, max_length: int) -> list[Input]:
        """Return one input for each example, with one encoding for each choice; its target is 1 for the answer, else 0.

        Raises:
            UserError: a question has fewer than two choices or an answer that is none of them, or a text holds only
                characters that the tokenizer drops.
        """
        for example in examples:
            if len(example.choices) < 2:
                raise UserError(f"the question {example.premise[:40]!r} has no two choices: give at least two")
            if example.answer is not None and not 0 <= example.answer < len(example.choices):
                raise UserError(
                    f"the question {example.premise[:40]!r} has {len(example.choices)} choices, but its answer is "
                    f"{example.answer}: count them from 0"
                )
        firsts = [example.premise for example in examples for _ in example.choices]
        seconds = [choice for example in examples for choice in example.choices]
        encodings = iter(encode_texts(tokenizer, firsts, seconds, max_length))
        return [
            Input(tuple(next(encodings) for _ in example.choices), _target(example), index)
            for index, example in enumerate(examples)
        ]

    def score(
        self, examples: Sequence[ChoiceQuestion], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> dict[str, float]:
        """Return the fraction of questions whose answer has the largest output; outputs: (choices,) each.

        Raises:
            UserError: a question has no answer.
        """
        if any(example.answer is None for example in examples):
            raise UserError("a question without an answer cannot be measured: give every question its answer")
        right = [output.argmax() == example.answer for example, output in zip(examples, outputs, strict=True)]
        return {"accuracy": float(np.mean(right))}

    def predictions(
        self, examples: Sequence[ChoiceQuestion], inputs: Sequence[Input], outputs: Sequence[np.ndarray]
    ) -> list[dict[str, Any]]:
        """Return for each question the chosen text, its index from 0, and the probability of every choice."""
        predictions = []
        for example, output in zip(examples, outputs, strict=True):
            best = int(output.argmax())
            probabilities = [float(p) for p in softmax(output)]
            predictions.append({"choice": example.choices[best], "place": best, "probabilities": probabilities})
        return predictions


def _target(example: ChoiceQuestion) -> np.ndarray | None:
    """Return 1 at the index of the answer and 0 elsewhere, (choices,)."""
    if example.answer is None:
        return None
    return np.eye(len(example.choices), dtype=np.float32)[example.answer]
