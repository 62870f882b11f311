"""Students of DistilBERT's kind: how they begin, what they minimize, how they are scored."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from random_parameters import randomize
from torch.nn import functional

from benchmarks.compression import masked_words
from benchmarks.compression.masked_words import STUDENTS, Lesson, one_layer, scores, summary, without
from d2lbert.config import BertConfig
from d2lbert.data.pretraining.batches import PretrainingBatch, PretrainingData, PretrainingSettings
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.torch.pretraining import BertForPretraining
from d2lbert.torch.runtime import to_tensors

EXAMPLES = PretrainingSettings(max_length=32, batch_size=4)


@pytest.fixture(scope="module")
def batch(shards: TokenShards) -> PretrainingBatch:
    """Single texts, each in a row of its own, so that there is padding."""
    settings = PretrainingSettings(max_length=32, batch_size=16, next_sentence=False, packed=False)
    return next(iter(PretrainingData(shards, settings).epoch(0)))[0]


@pytest.fixture
def teacher(sizes: BertConfig) -> BertForPretraining:
    model = BertForPretraining(dataclasses.replace(sizes, num_hidden_layers=2))
    randomize(model, seed=3, standard_deviation=0.4)
    return model.eval()


def test_a_copied_student_is_the_teacher_without_its_last_layer(
    teacher: BertForPretraining, batch: PretrainingBatch
) -> None:
    student = one_layer(teacher, True).eval()
    rows = to_tensors(batch.rows)
    after_one = teacher.bert(rows, output_hidden_states=True).hidden_states[1]
    assert torch.allclose(student(rows).token_logits, teacher.token_logits(after_one), atol=1e-5)
    new = one_layer(teacher, False).state_dict()
    assert not torch.equal(new["bert.embeddings.word.weight"], teacher.bert.embeddings.word.weight)
    assert {name: one.shape for name, one in new.items()} == {
        name: one.shape for name, one in student.state_dict().items()
    }


def test_the_losses_are_weighted_and_padding_counts_nothing(
    teacher: BertForPretraining, batch: PretrainingBatch
) -> None:
    """All three by PyTorch's own functions, token by token."""
    student = one_layer(teacher, True).eval()
    rows, positions = to_tensors(batch.rows), torch.from_numpy(batch.masked_positions)
    wanted, found = (model.bert(rows).sequence.flatten(0, 1) for model in (teacher, student))
    logits, wanted_logits = student.token_logits(found[positions]), teacher.token_logits(wanted[positions])
    soft = 4 * functional.kl_div((logits / 2).log_softmax(1), (wanted_logits / 2).softmax(1), reduction="batchmean")
    masked = functional.cross_entropy(logits, torch.from_numpy(batch.masked_ids))
    real = np.flatnonzero(batch.rows.token_ids.reshape(-1))
    assert 0 < len(real) < batch.rows.token_ids.size
    cosine = 1 - functional.cosine_similarity(found[real], wanted[real]).mean()
    for weights in ({"soft": 5.0, "masked": 2.0, "cosine": 1.0}, {"masked": 1.0}, {"soft": 5.0, "cosine": 1.0}):
        expected = sum(
            weight * {"soft": soft, "masked": masked, "cosine": cosine}[own] for own, weight in weights.items()
        )
        assert torch.allclose(Lesson(teacher, student, weights, "float32").loss(batch), expected, rtol=1e-5)


def test_the_slopes_go_to_the_student_alone(teacher: BertForPretraining, batch: PretrainingBatch) -> None:
    student = one_layer(teacher, True)
    Lesson(teacher, student, without("masked"), "float32").loss(batch).backward()
    assert all(one.grad is None for one in teacher.parameters())
    assert student.bert.encoder.layers()[0].attention.query.weight.grad.abs().sum() > 0


def test_a_student_is_scored_at_hidden_pieces_alone(
    teacher: BertForPretraining, shards: TokenShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that gives every piece the same logit has the loss ln V, and names the first piece everywhere."""
    with torch.no_grad():
        for one in teacher.parameters():
            one.zero_()
    held_out = PretrainingData(shards, EXAMPLES, "dev")
    monkeypatch.setattr(masked_words, "HELD_OUT", 2)
    found = scores(teacher, held_out)
    assert found["loss"] == pytest.approx(math.log(teacher.config.vocab_size), rel=1e-5)
    assert found["accuracy"] == 0  # the first piece is [PAD], which is never hidden
    hidden = [np.sum(batch.masked_ids >= 0) for batch, _ in held_out.epoch(0)]
    assert len(hidden) > 2
    assert found["tokens"] == sum(hidden[:2]) > 0


def test_each_loss_is_left_out_once() -> None:
    left = {name: set(weights) for name, (_, weights) in STUDENTS.items() if name.startswith("no ")}
    assert left == {
        "no soft targets": {"masked", "cosine"},
        "no masked words": {"soft", "cosine"},
        "no cosine": {"soft", "masked"},
    }
    assert [name for name, (copied, _) in STUDENTS.items() if not copied] == [
        "all three, new weights",
        "masked words alone, new weights",
    ]


def test_a_summary_by_hand() -> None:
    runs = [{"before": {"loss": 9.0}, "after": {"loss": loss, "accuracy": 0.25}} for loss in (4.0, 5.0)]
    found = summary(runs)
    assert (found["loss"]["mean"], found["accuracy"]["std"], found["before"]) == (4.5, 0, {"loss": 9.0})
