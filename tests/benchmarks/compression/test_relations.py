"""Students of MiniLM's kind: how far their relations are from the teacher's."""

from __future__ import annotations

import pytest
import torch
from random_parameters import randomize

from benchmarks.compression import relations
from benchmarks.compression.relations import Relations, right
from d2lbert.config import BertConfig
from d2lbert.data.examples import ScoredPair, Sentence
from d2lbert.data.pretraining.batches import PretrainingSettings
from d2lbert.data.pretraining.causal import CausalBatch, CausalData
from d2lbert.data.pretraining.shards import TokenShards
from d2lbert.torch.bert import BertModel
from d2lbert.torch.compression import copy_layers, last_projections, relation_losses
from d2lbert.torch.runtime import to_tensors


@pytest.fixture
def dev(shards: TokenShards) -> CausalData:
    return CausalData(shards, PretrainingSettings(32, 4, next_sentence=False), "dev")


@pytest.fixture
def teacher(sizes: BertConfig) -> BertModel:
    model = BertModel(sizes)
    randomize(model, seed=3, standard_deviation=0.4)
    return model.eval()


def batch_of(data: CausalData) -> CausalBatch:
    return next(iter(data.epoch(0)))[0]


def test_a_student_with_all_layers_has_the_relations(teacher: BertModel, dev: CausalData) -> None:
    found = Relations(teacher, copy_layers(teacher, [0, 1, 2]), "float32").held_out(dev)
    assert found == {"attention": pytest.approx(0, abs=1e-6), "values": pytest.approx(0, abs=1e-6)}
    other = Relations(teacher, copy_layers(teacher, [0, 2]), "float32").held_out(dev)
    assert min(other.values()) > 1e-3


def test_the_loss_is_the_sum_and_its_slopes_go_to_the_student_alone(teacher: BertModel, dev: CausalData) -> None:
    student, batch = copy_layers(teacher, [0, 2]), batch_of(dev)
    loss = Relations(teacher, student, "float32").loss(batch)
    rows = to_tensors(batch.rows)
    own = relation_losses(last_projections(student, rows), last_projections(teacher, rows), rows)
    assert torch.allclose(loss, own["attention"] + own["values"])
    loss.backward()
    assert all(one.grad is None for one in teacher.parameters())
    assert student.encoder.layers()[-1].attention.value.weight.grad.abs().sum() > 0


def test_a_mean_over_some_batches(teacher: BertModel, dev: CausalData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relations, "HELD_OUT", 2)
    held = Relations(teacher, copy_layers(teacher, [0, 2]), "float32")
    first, second = (held.losses(batch)["values"] for (batch, _), _ in zip(dev.epoch(0), range(2), strict=False))
    assert held.held_out(dev)["values"] == pytest.approx(float((first + second).detach()) / 2, rel=1e-5)


def test_texts_are_whole_and_nothing_is_hidden(shards: TokenShards) -> None:
    tokenizer = shards.tokenizer()
    batch = batch_of(relations.texts(shards, "train"))
    first = batch.rows.token_ids[0][: int((batch.rows.sequence_ids[0] == 1).sum())]
    assert [tokenizer.vocab[piece] for piece in (first[0], first[-1])] == ["[CLS]", "[SEP]"]
    assert tokenizer.token_to_id["[MASK]"] not in batch.rows.token_ids


def test_what_is_right_of_labels_and_nothing_of_scores() -> None:
    sentences = [Sentence("a", "good"), Sentence("b", "bad")]
    assert right(sentences, [{"label": "good"}, {"label": "good"}]) == [True, False]
    assert right([ScoredPair("a", "b", score=1.0)], [{"score": 1.0}]) == []
