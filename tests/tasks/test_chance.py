"""Scores of a model that has learned nothing are told from others, with the error of so few examples."""

from __future__ import annotations

import pytest

from d2lbert.data import ChoiceQuestion, Question, ScoredPair, Sentence, TaggedSentence
from d2lbert.tasks.chance import complaint_at_chance
from d2lbert.tasks.classification import Classification
from d2lbert.tasks.distillation import SpanDistillation
from d2lbert.tasks.multiple_choice import MultipleChoice
from d2lbert.tasks.pair import PairRegression
from d2lbert.tasks.parts_of_speech import PartsOfSpeech
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.tasks.tagging import Tagging

DEV = [Sentence("a", "x")] * 50 + [Sentence("b", "y")] * 50


@pytest.mark.parametrize(
    ("accuracy", "complains"), [(0.4, True), (0.5, True), (0.55, True), (0.56, False), (1.0, False)]
)
def test_labels(accuracy: float, complains: bool) -> None:
    text = complaint_at_chance(Classification(["x", "y"]), DEV, {"accuracy": accuracy})
    assert bool(text) == complains
    if complains:
        assert f"dev accuracy {accuracy:.2f} is not clearly above 0.50 ± 0.05, the share of the commonest label" in text


def test_few_examples_have_a_large_error() -> None:
    task, few = Classification(["x", "y"]), [DEV[0], DEV[0], DEV[-1], DEV[-1]]
    assert complaint_at_chance(task, few, {"accuracy": 0.75})
    assert not complaint_at_chance(task, few, {"accuracy": 1.0})
    assert not complaint_at_chance(task, few[:2], {"accuracy": 1.0})  # one label: nothing could be better


def test_the_other_tasks() -> None:
    choices = [ChoiceQuestion("p", ("a", "b", "c", "d"), 0)] * 100
    assert "not clearly above 0.25 ± 0.04, that of guessing" in complaint_at_chance(
        MultipleChoice(), choices, {"accuracy": 0.29}
    )
    assert not complaint_at_chance(MultipleChoice(), choices, {"accuracy": 0.3})
    pairs = [ScoredPair("a", "b", 1.0)] * 101
    assert "dev spearman 0.10" in complaint_at_chance(PairRegression(), pairs, {"spearman": 0.1})
    assert not complaint_at_chance(PairRegression(), pairs, {"spearman": 0.11})
    tags = [TaggedSentence(("a",), ("B-X",))]
    assert "not one entity" in complaint_at_chance(Tagging(["O", "B-X"]), tags, {"f1": 0.0})
    assert not complaint_at_chance(Tagging(["O", "B-X"]), tags, {"f1": 0.01})
    speech = [TaggedSentence(("a", "b", "c", "d"), ("NOUN", "VERB", "NOUN", "NOUN"))] * 25
    text = complaint_at_chance(PartsOfSpeech(["NOUN", "VERB"]), speech, {"accuracy": 0.79})
    assert "dev accuracy 0.79 is not clearly above 0.75 ± 0.04, the share of the commonest label" in text
    assert not complaint_at_chance(PartsOfSpeech(["NOUN", "VERB"]), speech, {"accuracy": 0.8})
    asked = [Question("q", "a", ())]
    assert "not one question" in complaint_at_chance(QuestionAnswering(), asked, {"exact_match": 0.0})
    assert not complaint_at_chance(QuestionAnswering(), asked, {"exact_match": 0.5})
    assert "not one question" in complaint_at_chance(SpanDistillation(QuestionAnswering()), asked, {"exact_match": 0.0})
