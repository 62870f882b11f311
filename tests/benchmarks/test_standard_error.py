"""The standard error of a score: equal to the formula for a share of right answers, near the truth for other scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.standard_error import paired_difference, standard_error
from d2lbert.data import Answer, Question, Sentence
from d2lbert.tasks.base import Input
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import SPECIAL_TOKENS, WordPiece
from d2lbert.text.encoding import Encoding

EMPTY = Encoding([], [], [], [], [])


def _answers(count: int, seed: int) -> tuple[list[Sentence], list[Input], list[np.ndarray]]:
    """Labels, and answers of which four in five are right."""
    random = np.random.default_rng(seed)
    labels, right = random.integers(2, size=count), random.random(count) < 0.8
    said = np.where(right, labels, 1 - labels)
    examples = [Sentence("x", "ab"[label]) for label in labels]
    inputs = [Input((EMPTY,), None, index) for index in range(count)]
    return examples, inputs, [np.eye(2)[one] for one in said]


@pytest.mark.parametrize("score", ["accuracy", "f1", "matthews"])
def test_it_is_the_spread_over_samples(score: str) -> None:
    task, drawn, errors = Classification("ab"), [], []
    for seed in range(40):
        examples, inputs, outputs = _answers(400, seed)
        drawn.append(task.score(examples, inputs, outputs)[score])
        if seed < 3:
            errors.append(standard_error(task, examples, inputs, outputs, score))
    assert np.mean(errors) == pytest.approx(np.std(drawn, ddof=1), rel=0.35)
    if score == "accuracy":
        assert np.mean(errors) == pytest.approx(math.sqrt(0.8 * 0.2 / 400), rel=0.2)


def test_questions_with_several_windows() -> None:
    tokenizer = WordPiece([*SPECIAL_TOKENS, "where", "in", "oslo", "rome"])
    places = ["oslo" if index % 2 else "rome" for index in range(30)]
    examples = [Question("where", f"in in in {place}", (Answer(place, 9),)) for place in places]
    task = QuestionAnswering()
    inputs = task.inputs(examples, tokenizer, 7)
    assert len(inputs) > len(examples)
    outputs = []
    for item in inputs:  # finds Oslo only
        logits = np.zeros((len(item.encodings[0]), 2))
        for place, token in enumerate(item.encodings[0].tokens):
            logits[place] = 9 if token == "oslo" else 0
        outputs.append(logits)
    assert task.score(examples, inputs, outputs)["f1"] == pytest.approx(0.5)
    assert standard_error(task, examples, inputs, outputs, "f1") == pytest.approx(0.5 / math.sqrt(30), rel=0.35)


def test_two_models_are_compared_example_by_example() -> None:
    """Four examples, two seeds of ours and one of the others: gains 1, 1/2, 0, -1."""
    found = paired_difference([[True, True, True, False], [True, False, True, False]], [[False, False, True, True]])
    assert found["difference"] == 0.125
    assert found["standard_error_of_difference"] == pytest.approx(math.sqrt((1 + 0.25 + 1) / 4 - 0.125**2) / 2)


def test_examples_of_a_group_count_as_one() -> None:
    """Gains 1, 1, 0, 0: a larger error where equal ones are a group; the same error where each stands for itself."""
    ours, others = [[1.0, 1.0, 0.0, 0.0]], [[0.0] * 4]
    alone = paired_difference(ours, others)["standard_error_of_difference"]
    assert alone == pytest.approx(0.25)
    for groups, error in ((["a", "b", "c", "d"], alone), (["a", "a", "b", "b"], alone * math.sqrt(2))):
        assert paired_difference(ours, others, groups)["standard_error_of_difference"] == pytest.approx(error)
