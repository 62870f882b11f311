"""The ledger of answers: its steps are the classifier's, `transformers` agrees, and a difference has its error."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.deployment import ledger, ledger_answers
from benchmarks.from_outside import WAYS, Seen
from d2lbert import get_model
from d2lbert.data.examples import Question
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.tasks.table import named_task
from d2lbert.torch.training.evaluation import compute_outputs

TEXT = "AMLC 2019 is held in Seattle. It is a conference of one company, and about a thousand people come to it."
QUESTIONS = [Question("Where is AMLC held?", TEXT), Question("How many people come to the conference?", TEXT)]


def test_the_steps_are_those_of_the_classifier_in_their_order() -> None:
    """Each has students of its own, which stand between the same steps."""

    def told(steps: dict[str, str]) -> dict[str, str]:
        return {"student" if name.startswith(ledger.STUDENT) else name: chapter for name, chapter in steps.items()}

    own = told({name: chapter for name, (chapter, _) in ledger_answers.STEPS.items()} | WAYS)
    theirs = told({name: step.chapter for name, step in ledger.STEPS.items()})
    assert own == theirs
    assert list(own) == list(theirs)


def test_a_student_has_the_score_of_the_way_that_the_held_out_articles_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = {
        way: {
            "f1": {"mean": mean, "n": 3},
            "f1 of the choice": {"mean": choice},
            "minus the teacher": {"difference": mean - 0.6},
        }
        for way, mean, choice in (("labels", 0.56, 0.4), ("soft targets", 0.55, 0.5))
    }
    stored = {"command": "c", "date": "d", "commit": "e", "trained_at": ["f"], "metrics": {"ways": ways}}
    monkeypatch.setattr(ledger_answers.notebook, "results", lambda name: stored)
    row = ledger_answers.taught_row()
    assert row["words"] == "taught by: soft targets, the better of 2 ways; F1: mean of 3 runs"
    assert (row["f1"], row["difference"]) == (0.55, pytest.approx(-0.05))
    assert row["largest_difference_of_logits"] is None
    assert row["taught"] == {"command": "c", "date": "d", "trained_at": ["f"]}


def test_from_outside_come_questions_with_their_texts_the_longest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    long = Question("Where?", "It is in Seattle, as it was in the years before. " * 9)
    too_long = Question("Where?", "It is in Seattle. " * 99)
    shop = SimpleNamespace(test=[*QUESTIONS, long, too_long])
    shop.model, shop.tokenizer = get_model("minilm", "squad")
    calls = []

    def ask(*given: Any) -> Seen:
        calls.append(given)
        return Seen([{"answer": "Seattle"}] * 4, [0.25, 0.5], 8.0)

    monkeypatch.setattr(ledger_answers, "seen_from_outside", ask)
    monkeypatch.setattr(ledger_answers, "scored", lambda _, answers: (np.array([1.0, 0.0, 1.0, 1.0]), answers))
    first = (np.array([1.0, 1.0, 1.0, 1.0]), ["Seattle", "a thousand", "Seattle", "Seattle"])
    found = ledger_answers.answered_row(shop, "served", first, 2, 3.0)
    ((way, name, tokens, asked, seconds),) = calls
    assert (way, name, tokens, seconds) == ("served", ledger_answers.MODEL, ledger.TOKENS, 3.0)
    of_texts = named_task("question_answering").of_texts
    read = [of_texts([content["text"]], [content["pair"]], ())[0] for content in asked.contents]
    assert read == shop.test
    assert [content["text"] for content in asked.long] == [long.context, TEXT]
    assert (found["f1"], found["changed"], found["questions_per_second"]) == (0.75, 1, 8.0)
    assert (found["chapter"], found["milliseconds"]) == ("serving", {"p50": 250.0, "p95": 500.0})


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
    assert found["standard_error_of_difference"] == pytest.approx(np.std([0, 0.5, 0, -0.5]) / 2)
