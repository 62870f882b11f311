"""Distillation as a task: targets that carry a teacher's logits, scores that only see the labels, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.data import Sentence
from d2lbert.data.examples import Answer, Pair, Question
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.distillation import Distillation, LogitMatching, SpanDistillation, Taught
from d2lbert.tasks.pair import PairClassification, PairRegression
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"])
TASK = Classification(["negative", "positive"])
TAUGHT = [Taught(Sentence("good film", "positive"), (-1.5, 2.0)), Taught(Sentence("film"), (0.25, 0.5))]


def test_targets_carry_the_teachers_logits_and_the_label() -> None:
    labelled, unlabelled = Distillation(TASK, temperature=3, weight=0.7).inputs(TAUGHT, TOKENIZER, 8)
    assert labelled.encodings[0].tokens == ["[CLS]", "good", "film", "[SEP]"]
    assert labelled.target.logits.tolist() == [-1.5, 2.0]
    assert labelled.target[1:] == (1, 3.0, 0.7)
    assert unlabelled.target.logits.tolist() == [0.25, 0.5]
    assert unlabelled.target.label == IGNORED


def test_targets_of_logits_are_the_logits_alone() -> None:
    task = LogitMatching(TASK)
    assert task.loss is Loss.LOGITS
    assert [item.target.tolist() for item in task.inputs(TAUGHT, TOKENIZER, 8)] == [[-1.5, 2.0], [0.25, 0.5]]


def test_a_plain_example_can_be_scored_but_not_learned_from() -> None:
    (item,) = Distillation(TASK).inputs([Sentence("film", "positive")], TOKENIZER, 8)
    assert item.target is None


def test_scores_are_those_against_the_labels() -> None:
    """The teacher is wrong about this example; the student is scored by its label."""
    task, examples = (
        Distillation(TASK),
        [Taught(Sentence("film", "negative"), (0.0, 9.0)), Sentence("film", "positive")],
    )
    inputs, outputs = task.inputs(examples, TOKENIZER, 8), [np.array([1.0, 0.0]), np.array([1.0, 0.0])]
    assert task.score(examples, inputs, outputs)["accuracy"] == 0.5
    assert task.predictions(examples, inputs, outputs) == TASK.predictions(examples, inputs, outputs)
    assert task.labels == TASK.labels


def test_pairs_can_be_taught() -> None:
    task = Distillation(PairClassification(["no", "yes"]))
    (item,) = task.inputs([Taught(Pair("good", "film", "no"), (1.0, 2.0))], TOKENIZER, 8)
    assert item.encodings[0].tokens == ["[CLS]", "good", "[SEP]", "film", "[SEP]"]
    assert item.target.label == 0


def test_a_run_is_known_by_its_temperature_and_weight() -> None:
    assert Distillation(TASK, 3, 0.25).identity() == {"temperature": 3.0, "weight": 0.25}
    assert TASK.identity() == {}


@pytest.mark.parametrize("logits", [(1.0,), (1.0, 2.0, 3.0), (1.0, float("nan"))])
def test_logits_that_do_not_fit_are_refused(logits: tuple[float, ...]) -> None:
    for task in (Distillation(TASK), LogitMatching(TASK)):
        with pytest.raises(UserError, match="are no 2 numbers: give one for each of negative, positive"):
            task.inputs([Taught(Sentence("film"), logits)], TOKENIZER, 8)


def test_refusals() -> None:
    with pytest.raises(UserError, match="one label for each text"):
        Distillation(PairRegression())
    for temperature in (0, -1, float("nan")):
        with pytest.raises(UserError, match="temperature"):
            Distillation(TASK, temperature)
    for weight in (-0.1, 1.1, float("nan")):
        with pytest.raises(UserError, match="weight of the teacher"):
            Distillation(TASK, weight=weight)


# [CLS] good [SEP] film film good [SEP], of which a model of six tokens reads two windows.
ASKED = Question("good", "film film good", (Answer("good", 10),))
WINDOWS = (((0.5, 0.25),) * 6, tuple((float(place), -1.0) for place in range(6)))


def test_targets_of_spans_carry_the_teachers_logits_of_each_window() -> None:
    task = SpanDistillation(QuestionAnswering(stride=1), temperature=3, weight=0.7)
    plain = QuestionAnswering(stride=1).inputs([ASKED, ASKED], TOKENIZER, 6)
    inputs = task.inputs([Taught(ASKED, WINDOWS), ASKED], TOKENIZER, 6)
    assert [(item.encodings[0].ids, item.begin, item.example) for item in inputs] == [
        (item.encodings[0].ids, item.begin, item.example) for item in plain
    ]
    first, second, *unseen = inputs
    assert first.target.logits.tolist() == [[0.5, 0.25]] * 6
    assert second.target.logits[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert [one.target.label.tolist() for one in (first, second)] == [one.target.tolist() for one in plain[:2]]
    assert second.target[2:] == (3.0, 0.7)
    assert [one.target for one in unseen] == [None, None]


def test_scores_of_spans_are_those_of_the_task() -> None:
    task, plain = SpanDistillation(QuestionAnswering()), QuestionAnswering()
    inputs = task.inputs([ASKED], TOKENIZER, 16)
    outputs = [np.eye(len(inputs[0].encodings[0]), 2, -5) * 9]
    assert task.score([ASKED], inputs, outputs) == plain.score([ASKED], inputs, outputs)
    assert task.predictions([Taught(ASKED, ())], inputs, outputs) == plain.predictions([ASKED], inputs, outputs)


def test_a_distilled_reader_keeps_the_threshold_of_its_task() -> None:
    class Reader:
        null_threshold: float | None = None

    SpanDistillation(QuestionAnswering(null_threshold=0.0)).settle(Reader, {"best_threshold": 1.5})
    assert Reader.null_threshold == 1.5


def test_a_teacher_that_read_something_else_is_refused() -> None:
    task = SpanDistillation(QuestionAnswering(stride=1))
    with pytest.raises(UserError, match=r"windows of \[6, 6\] tokens, the student reads \[7\]: give both one task"):
        task.inputs([Taught(ASKED, WINDOWS)], TOKENIZER, 16)
    broken = (WINDOWS[0], ((float("inf"), 0.0), *WINDOWS[1][1:]))
    with pytest.raises(UserError, match="NaN or infinite"):
        task.inputs([Taught(ASKED, broken)], TOKENIZER, 6)
    with pytest.raises(UserError, match="give a QuestionAnswering"):
        SpanDistillation(TASK)
    with pytest.raises(UserError, match="one label for each text"):
        Distillation(QuestionAnswering())
