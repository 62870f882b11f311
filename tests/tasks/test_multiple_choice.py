"""The task of choosing: inputs, loss, scores, predictions, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from d2lbert import UserError
from d2lbert.data import ChoiceQuestion, Sentence
from d2lbert.data.batching import pack
from d2lbert.tasks.base import Loss
from d2lbert.tasks.multiple_choice import MultipleChoice
from d2lbert.tasks.table import fitting_examples, named_task
from d2lbert.text import WordPiece
from d2lbert.torch.training.losses import compute_loss

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film", "plot"])
QUESTIONS = [ChoiceQuestion("film", ("good", "plot"), 1), ChoiceQuestion("plot", ("good", "film", "plot plot"), 0)]


def test_each_choice_stands_behind_the_premise() -> None:
    first, second = MultipleChoice().inputs(QUESTIONS, TOKENIZER, 10)
    assert [encoding.tokens for encoding in first.encodings] == [
        ["[CLS]", "film", "[SEP]", "good", "[SEP]"],
        ["[CLS]", "film", "[SEP]", "plot", "[SEP]"],
    ]
    assert second.encodings[2].segment_ids == [0, 0, 0, 1, 1, 1]
    assert len(second.encodings) == 3
    assert first.target.tolist() == [0, 1]
    assert second.target.tolist() == [1, 0, 0]
    assert MultipleChoice().inputs([ChoiceQuestion("film", ("good", "plot"))], TOKENIZER, 10)[0].target is None


def test_an_answer_beyond_the_choices_is_refused() -> None:
    with pytest.raises(UserError, match="has 2 choices, but its answer is 2: count them from 0"):
        MultipleChoice().inputs([ChoiceQuestion("film", ("good", "plot"), 2)], TOKENIZER, 10)


def test_loss_by_hand_with_unequal_numbers_of_choices() -> None:
    inputs = MultipleChoice().inputs(QUESTIONS, TOKENIZER, 10)
    batch = pack([encoding for model_input in inputs for encoding in model_input.encodings])
    scores = torch.tensor([[1.0], [3.0], [0.5], [2.0], [-1.0]])
    loss = compute_loss(Loss.CHOICE, scores, [model_input.target for model_input in inputs], batch)
    first = -math.log(math.exp(3) / (math.exp(1) + math.exp(3)))
    second = -math.log(math.exp(0.5) / (math.exp(0.5) + math.exp(2) + math.exp(-1)))
    assert float(loss) == pytest.approx((first + second) / 2)


def test_score_and_predictions() -> None:
    outputs = [np.array([1.0, 3.0]), np.array([0.5, 2.0, -1.0])]
    assert MultipleChoice().score(QUESTIONS, [], outputs) == {"accuracy": 0.5}
    right, wrong = MultipleChoice().predictions(QUESTIONS, [], outputs)
    assert (right["choice"], right["place"]) == ("plot", 1)
    assert (wrong["choice"], wrong["place"]) == ("film", 1)
    assert right["probabilities"] == pytest.approx([1 / (1 + math.e**2), math.e**2 / (1 + math.e**2)])
    assert sum(wrong["probabilities"]) == pytest.approx(1)


def test_examples_choose_the_task() -> None:
    assert named_task("multiple_choice").of_examples(QUESTIONS).loss is Loss.CHOICE
    assert named_task("multiple_choice").of_model(["choice"], None).labels == ("choice",)
    assert fitting_examples("multiple_choice", "copa", QUESTIONS) == QUESTIONS
    with pytest.raises(UserError, match="'sst2' holds no questions with choices"):
        fitting_examples("multiple_choice", "sst2", [Sentence("a", "b")])


def test_what_cannot_be() -> None:
    with pytest.raises(UserError, match="'film' has no two choices"):
        MultipleChoice().inputs([ChoiceQuestion("film", ("good",), 0)], TOKENIZER, 10)
    with pytest.raises(UserError, match="nothing that the tokenizer keeps"):
        MultipleChoice().inputs([ChoiceQuestion("film", ("good", "\u200b"), 0)], TOKENIZER, 10)
    with pytest.raises(UserError, match="without an answer"):
        MultipleChoice().score([ChoiceQuestion("film", ("good", "plot"))], [], [np.array([0.0, 1.0])])
