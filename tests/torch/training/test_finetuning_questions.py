"""Question answering through the fine-tuning loop: it learns which words are asked for, stops and resumes, and a real
encoder with an untrained head answers with words of the text."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from d2lbert import get_model
from d2lbert.config import BertConfig
from d2lbert.data import Answer, Question
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForQuestionAnswering
from d2lbert.torch.training.evaluation import compute_outputs, evaluate, predict
from d2lbert.torch.training.finetuning import Training, fine_tune

GOOD, BAD, OTHERS = ["good", "fine"], ["bad", "poor"], ["film", "plot", "the", "a"]
TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GOOD, *BAD, *OTHERS, "praise", "blame", "?"])
QUICK = Training(epochs=8, batch_size=16, learning_rate=1e-2, max_length=12)
DEMO = Question("Where is AMLC held?", "AMLC 2019 is held in Seattle.", (Answer("Seattle", 21),))


def _questions(count: int, seed: int) -> list[Question]:
    """The question asks for the word of praise or of blame; every fourth text has only the opposite word."""
    generator = np.random.default_rng(seed)
    questions = []
    for number in range(count):
        question, right, wrong = [("praise ?", GOOD, BAD), ("blame ?", BAD, GOOD)][int(generator.integers(2))]
        answer = str(generator.choice(right))
        words = [str(word) for word in generator.choice(OTHERS, int(generator.integers(2, 8)))]
        for word in [str(generator.choice(wrong))] + [answer] * (number % 4 > 0):
            words.insert(int(generator.integers(len(words) + 1)), word)
        text = " ".join(words)
        questions.append(Question(question, text, (Answer(answer, text.index(answer)),) if number % 4 else ()))
    return questions


def _model() -> BertForQuestionAnswering:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(TOKENIZER.vocab), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, initializer_range=0.1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertForQuestionAnswering(BertModel(config))


def test_it_learns_which_words_answer_and_when_none_does() -> None:
    """Texts are longer than the model takes at once, so the answer must be found in one of several windows."""
    train, dev, test = _questions(320, 1), _questions(80, 2), _questions(80, 3)
    task, model = QuestionAnswering.of(train), _model()
    assert len(task.inputs(dev, TOKENIZER, QUICK.max_length)) > len(dev)
    history = fine_tune(model, task, TOKENIZER, train, dev, QUICK, progress=False)
    assert history[-1]["loss"] < history[0]["loss"] / 4
    tuned = QuestionAnswering(max(history, key=lambda record: record["f1"])["best_threshold"])
    scores, answers = evaluate(model, tuned, TOKENIZER, test, QUICK.max_length)
    assert scores["f1"] > 0.95
    assert scores["no_answer_accuracy"] > 0.9
    assert [answer["answer"] == "" for answer in answers[::4]].count(True) > 18


def test_packed_and_padded_training_agree() -> None:
    losses = []
    for packed in (True, False):
        settings = dataclasses.replace(QUICK, epochs=2, packed=packed)
        train = _questions(64, 1)
        history = fine_tune(_model(), QuestionAnswering.of(train), TOKENIZER, train, train, settings, progress=False)
        losses.append([record["loss"] for record in history])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    train, settings = _questions(64, 1), dataclasses.replace(QUICK, epochs=2)
    task = QuestionAnswering.of(train)
    whole, stopped = _model(), _model()
    fine_tune(whole, task, TOKENIZER, train, train, settings, progress=False)

    class StopsAfterOneEpoch(QuestionAnswering):
        def score(self, *arguments: object) -> dict[str, float]:
            if (tmp_path / "run").exists():
                raise KeyboardInterrupt
            return super().score(*arguments)

    with pytest.raises(KeyboardInterrupt):
        fine_tune(
            stopped, StopsAfterOneEpoch(0.0), TOKENIZER, train, train, settings, progress=False,
            checkpoint=tmp_path / "run",
        )  # fmt: skip
    again = _model()
    history = fine_tune(again, task, TOKENIZER, train, train, settings, progress=False, checkpoint=tmp_path / "run")
    assert [record["epoch"] for record in history] == [1, 2]
    for expected, resumed in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(expected, resumed)


def test_a_real_encoder_answers_with_words_of_the_text() -> None:
    """The head is untrained, so any words may come; that they stand in the text does not depend on training."""
    torch.manual_seed(0)
    encoder, tokenizer = get_model("minilm")
    model, task = BertForQuestionAnswering(encoder), QuestionAnswering()
    long = dataclasses.replace(DEMO, context="The weather was fine. " * 12 + DEMO.context, answers=None)
    answers = predict(model, task, tokenizer, [DEMO, long], max_length=40)
    assert len(task.inputs([long], tokenizer, 40)) > 2
    for example, answer in zip([DEMO, long], answers, strict=True):
        for candidate in answer["n_best"]:
            assert example.context[candidate["start"] :].startswith(candidate["answer"])
            assert candidate["answer"]
    (window,) = inputs = task.inputs([DEMO], tokenizer, 40)
    tokens = window.encodings[0].tokens
    assert tokens[window.target[0] : window.target[1] + 1] == ["seattle"]
    (output,) = compute_outputs(model, inputs, tokenizer)
    assert output.shape == (len(tokens), 2)
    output[window.target, [0, 1]] += 100  # as a trained head would
    assert task.answers([DEMO], inputs, [output])[0]["answer"] == "Seattle"
