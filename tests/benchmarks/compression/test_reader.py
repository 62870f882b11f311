"""The distilled reader: its student is a part of its teacher, and differences have the right sign and error."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from random_parameters import randomize

from benchmarks.compression import reader
from d2lbert.config import BertConfig
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForQuestionAnswering

QUESTIONS = [SimpleNamespace(context=text) for text in ("a", "a", "b", "c")]


@pytest.fixture
def teacher() -> BertForQuestionAnswering:
    sizes = {"hidden_size": 8, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 16}
    model = BertForQuestionAnswering(BertModel(BertConfig(vocab_size=20, max_position_embeddings=9, **sizes)))
    randomize(model, seed=1)
    return model.eval()


def test_a_student_is_three_layers_and_a_head_of_its_own(teacher: BertForQuestionAnswering) -> None:
    before = {name: one.clone() for name, one in teacher.state_dict().items()}
    student = reader.student_of(teacher)
    own, theirs = student.bert.encoder.layers(), teacher.bert.encoder.layers()
    assert len(own) == 3
    for layer, place in zip(own, reader.LAYERS, strict=True):
        assert torch.equal(layer.attention.query.weight, theirs[place].attention.query.weight)
    assert torch.equal(student.classifier.weight, teacher.classifier.weight)
    assert student.config.hidden_dropout_prob == student.config.attention_probs_dropout_prob == 0
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(1)
    assert all(torch.equal(one, before[name]) for name, one in teacher.state_dict().items())


def test_differences_are_of_soft_targets_and_over_texts(teacher: BertForQuestionAnswering) -> None:
    """The teacher scores 1 everywhere; labels 0; soft targets 1, 1, 0, 0, where the first two share a text."""
    scores = {id(teacher): [1.0] * 4}
    lessons: Any = SimpleNamespace(
        teacher=teacher, parts={"xquad": QUESTIONS}, f1=lambda model: scores.get(id(model), [0.5] * 4)
    )
    epochs = [{"f1": 0.3}, {"f1": 0.2}]
    found = {
        "labels": [{"f1": [0.0] * 4, "history": epochs}],
        "soft targets": [{"f1": [1.0, 1.0, 0.0, 0.0], "history": epochs}],
    }
    summary = reader.summary(lessons, found)
    assert (summary["teacher"]["f1"], summary["student"]["f1"], summary["texts"]) == (1.0, 0.5, 3)
    assert summary["ways"]["labels"]["f1"]["mean"] == 0
    assert summary["ways"]["labels"]["f1 of the choice"]["mean"] == 0.3
    assert summary["ways"]["soft targets"]["minus the teacher"]["difference"] == -0.5
    gain = summary["soft targets minus labels"]
    assert gain["difference"] == 0.5
    # Gains around their mean, by text: 1/2 + 1/2, -1/2, -1/2.
    assert gain["standard_error_of_difference"] == pytest.approx(math.sqrt(1 + 0.25 + 0.25) / 4)
