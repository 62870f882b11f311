"""The questions that the book asks in its chapters, put to MiniLM after a short fine-tuning: the answers must hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from d2lbert import data, get_model
from d2lbert.data import Pair, TaggedSentence
from d2lbert.tasks.table import named_task
from d2lbert.torch import heads
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.evaluation import predict
from d2lbert.torch.training.finetuning import Training, fine_tune

ANNOUNCED = "The processor was announced in San Jose at the Forum."
UNVEILED = "The processor was unveiled at the Forum in San Jose."

pytestmark = pytest.mark.slow


def _answers(
    task_name: str, train: Sequence[Any], dev: Sequence[Any], settings: Training, questions: Sequence[Any]
) -> list[dict[str, Any]]:
    """Fine-tune MiniLM and return its answers."""
    named = named_task(task_name)
    task = named.of_examples(train)
    seed_everything(settings.seed)
    encoder, tokenizer = get_model("minilm")
    model = getattr(heads, named.head)(encoder, task.labels)
    fine_tune(model, task, tokenizer, train, dev, settings, progress=False)
    return predict(model, task, tokenizer, questions)


def _paraphrase(train: Sequence[Any], dev: Sequence[Any], settings: Training) -> tuple[list[str], list[float]]:
    """Return labels and probabilities of paraphrase of the two reports, in both orders, and of two unlike texts."""
    questions = [Pair(ANNOUNCED, UNVEILED), Pair(UNVEILED, ANNOUNCED), Pair(ANNOUNCED, "A cat sleeps on the sofa .")]
    predictions = _answers("pair", train, dev, settings, questions)
    return [prediction["label"] for prediction in predictions], [
        prediction["probabilities"]["paraphrase"] for prediction in predictions
    ]


@pytest.mark.usefixtures("no_data")
def test_reports_of_one_event_are_nearer_to_a_paraphrase_than_unlike_texts() -> None:
    """The few pairs of the sample do not settle the label, but they settle the order."""
    settings = Training(epochs=5, batch_size=8, learning_rate=2e-4)
    _, chances = _paraphrase(data.load("mrpc", "train"), data.load("mrpc", "dev"), settings)
    assert min(chances[:2]) > chances[2] + 0.05


def test_two_reports_of_one_processor_are_paraphrases(real_data: Path) -> None:
    settings = Training(epochs=3, batch_size=16, learning_rate=2e-4)
    train, dev = data.load("mrpc", "train")[::15], data.load("mrpc", "dev")[::8]
    labels, _ = _paraphrase(train, dev, settings)
    assert labels[:2] == ["paraphrase", "paraphrase"]


def test_jim_is_a_person_and_amazon_an_organization(real_data: Path) -> None:
    """The samples name few organizations, so this needs the real sentences."""
    train, dev = data.load("conll2003", "train")[::30], data.load("conll2003", "dev")[::40]
    settings = Training(epochs=4, batch_size=16, learning_rate=3e-4)
    jim = TaggedSentence(("Jim", "bought", "3000", "shares", "of", "Amazon", "in", "2006", "."))
    (answer,) = _answers("tagging", train, dev, settings, [jim])
    entities = [(entity["text"], entity["type"]) for entity in answer["entities"]]
    assert entities == [("Jim", "PER"), ("Amazon", "ORG")]
