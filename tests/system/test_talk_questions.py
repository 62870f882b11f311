"""The questions of talks, asked of a real encoder that learned from invented facts for about a minute."""

from __future__ import annotations

import numpy as np
import pytest

from d2lbert import get_model
from d2lbert.data.facts import TALKS, generate_facts
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.heads import BertForQuestionAnswering
from d2lbert.torch.runtime import seed_everything
from d2lbert.torch.training.evaluation import predict
from d2lbert.torch.training.finetuning import Training, fine_tune

pytestmark = pytest.mark.slow
SETTINGS = Training(epochs=2, batch_size=8, learning_rate=3e-4, max_length=96)


@pytest.fixture(scope="module")
def trained() -> tuple[BertForQuestionAnswering, WordPiece, float]:
    """A model, its tokenizer, and its F1 on facts about people whom it never met."""
    chance = np.random.default_rng(0)
    train, dev = generate_facts(400, chance), generate_facts(80, chance, unseen=True)
    encoder, tokenizer = get_model("minilm")
    seed_everything(0)  # here, as in the chapter: the head's first weights decide how much is learned in two epochs
    model = BertForQuestionAnswering(encoder)
    history = fine_tune(model, QuestionAnswering.of(train), tokenizer, train, dev, SETTINGS, progress=False)
    return model, tokenizer, history[-1]["f1"]


def test_facts_are_learned(trained: tuple[BertForQuestionAnswering, WordPiece, float]) -> None:
    assert trained[2] > 0.6


def test_where_is_amlc_held(trained: tuple[BertForQuestionAnswering, WordPiece, float]) -> None:
    model, tokenizer, _ = trained
    answers = predict(model, QuestionAnswering(), tokenizer, TALKS)
    assert answers[0]["answer"] == "Seattle"
    assert answers[0]["probability"] > 0.5
    for question, answer in zip(TALKS, answers, strict=True):
        assert question.context[answer["start"] :].startswith(answer["answer"])
