"""Invented facts, the questions of talks, and sentences that mislead."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert.data.examples import Answer, Question
from d2lbert.data.facts import TALKS, generate_facts, mislead


def test_answers_stand_where_they_should() -> None:
    questions = generate_facts(200, np.random.default_rng(1))
    for question in [*questions, *TALKS]:
        for answer in question.answers or ():
            assert question.context[answer.start :].startswith(answer.text)
    assert all(question.context.count(". ") <= 2 for question in questions)
    impossible = [question for question in questions if question.answers == ()]
    assert 30 < len(impossible) < 70
    assert {question.answers for question in generate_facts(20, np.random.default_rng(1), unanswerable=1)} == {()}


def test_talks_are_asked_in_their_own_words() -> None:
    assert {question.question: (question.answers or ())[0].text.split(",")[0] for question in TALKS} == {
        "Where is AMLC held?": "Seattle",
        "What can we learn in NUS?": "sciences",
        "What does NUS mean?": "National University of Singapore",
        "How many parameters does BERT-large have?": "340M",
        "Who shall use GluonNLP?": "engineers",
    }


def test_no_text_has_two_sentences_of_one_kind() -> None:
    """A question without a name, such as "Who opened the meeting?", could be asked of both."""
    for question in generate_facts(300, np.random.default_rng(1)):
        assert question.context.count("The meeting of") <= 1
        assert question.context.count("moved to") <= 1
        if "meeting" in question.question:
            assert ("meeting" in question.context) == bool(question.answers)


def test_unseen_texts_have_other_people_and_places() -> None:
    seen, unseen = (
        {word for question in generate_facts(200, np.random.default_rng(1), flag) for word in question.context.split()}
        for flag in (False, True)
    )
    assert {"Anna", "Lisbon."} <= seen - unseen
    assert {"Diego", "Delhi."} <= unseen - seen


def test_a_seed_gives_the_same_texts() -> None:
    first, repeated, other = (generate_facts(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == repeated != other


@pytest.mark.parametrize(
    ("wording", "added"),
    [
        ("Where does Hiro live?", "In Chicago does Brandt live."),
        ("How many trees did Mei of Oslo plant in 1990?", "Seventeen trees did Brandt of Norvik plant in 1997."),
        ("In what year was it opened by Kofi", "In the blue house year was it opened by Brandt."),
    ],
)
def test_a_misleading_sentence(wording: str, added: str) -> None:
    question = Question(wording, "Hiro lives in Riga.", (Answer("Riga", 14),), "one", "Hiro")
    assert mislead(question) == Question(wording, f"Hiro lives in Riga. {added}", (Answer("Riga", 14),), "one", "Hiro")


@pytest.mark.parametrize("wording", ["Who opened the meeting?", "Name the home of Hiro."])
def test_no_sentence_that_would_contradict_the_text_or_asks_nothing(wording: str) -> None:
    assert mislead(Question(wording, "Hiro lives in Riga.")) is None
