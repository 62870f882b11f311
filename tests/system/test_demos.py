"""The questions of the talks, put to the adapters that come with the book: the answers must hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from d2lbert import get_model
from d2lbert.data import Pair, TaggedSentence
from d2lbert.data.facts import TALKS
from d2lbert.metrics import squad_f1
from d2lbert.tasks.table import named_task
from d2lbert.torch.training.evaluation import predict

ANNOUNCED = "The processor was announced in San Jose at the Forum."
UNVEILED = "The processor was unveiled at the Forum in San Jose."

pytestmark = pytest.mark.usefixtures("no_data")


def answers(task_name: str, dataset: str, questions: Sequence[Any]) -> list[dict[str, Any]]:
    """What the adapters of a data set answer."""
    model, tokenizer = get_model("minilm", dataset)
    return predict(model, named_task(task_name).of_model(model.labels, None), tokenizer, questions)


def test_two_reports_of_one_processor_are_paraphrases() -> None:
    """In both orders; a report and a text of something else are none."""
    questions = [Pair(ANNOUNCED, UNVEILED), Pair(UNVEILED, ANNOUNCED), Pair(ANNOUNCED, "A cat sleeps on the sofa .")]
    found = answers("pair", "mrpc", questions)
    assert [answer["label"] for answer in found] == ["paraphrase", "paraphrase", "different"]


def test_jim_is_a_person_and_amazon_a_corporation() -> None:
    jim = TaggedSentence(("Jim", "bought", "3000", "shares", "of", "Amazon", "in", "2006", "."))
    (answer,) = answers("tagging", "wnut17", [jim])
    entities = [(entity["text"], entity["type"]) for entity in answer["entities"]]
    assert entities == [("Jim", "person"), ("Amazon", "corporation")]


def test_four_of_five_questions_are_answered() -> None:
    """What one can learn in NUS is a long list; the model names the university in its place."""
    found = answers("question_answering", "squad", TALKS)
    for question, answer in zip(TALKS, found, strict=True):
        assert question.context[answer["start"] :].startswith(answer["answer"])
    scores = {
        question.question: squad_f1(answer["answer"], [one.text for one in question.answers])
        for question, answer in zip(TALKS, found, strict=True)
    }
    assert [text for text, score in scores.items() if score < 1] == ["What can we learn in NUS?"]
    assert found[0]["answer"] == "Seattle"
