"""The ledger of answers: its steps are the classifier's, `transformers` agrees, and a difference has its error."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.deployment import ledger, ledger_answers
from d2lbert import get_model
from d2lbert.data.examples import Question
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.torch.training.evaluation import compute_outputs

TEXT = "AMLC 2019 is held in Seattle. It is a conference of one company, and about a thousand people come to it."
QUESTIONS = [Question("Where is AMLC held?", TEXT), Question("How many people come to the conference?", TEXT)]


def test_the_steps_are_those_of_the_classifier() -> None:
    told = {name: step.chapter for name, step in ledger.STEPS.items() if name != ledger.SERVED}
    assert {name: chapter for name, (chapter, _) in ledger_answers.STEPS.items()} == told
    assert list(ledger_answers.STEPS) == list(told)


def test_transformers_gives_the_logits_of_ours() -> None:
    model, tokenizer = get_model("minilm", "squad")
    inputs = QuestionAnswering().inputs(QUESTIONS, tokenizer, 64)
    theirs = compute_outputs(ledger_answers.InTransformers(model), inputs, tokenizer, "cpu")
    for own, other in zip(compute_outputs(model, inputs, tokenizer, "cpu"), theirs, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-4)


def test_a_difference_has_the_error_of_pairs() -> None:
    first = (np.array([1.0, 0.5, 0.0, 1.0]), ["a", "b", "c", "d"])
    own = (np.array([1.0, 1.0, 0.0, 0.5]), ["a", "B", "c", "e"])
    found = ledger_answers.compared(own, first)
    assert (found["f1"], found["changed"], found["difference"]) == (0.625, 2, 0.0)
    assert found["standard_error_of_difference"] == pytest.approx(np.std([0, 0.5, 0, -0.5], ddof=1) / 2)
