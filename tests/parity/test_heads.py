"""The classification head equals transformers.BertForSequenceClassification: logits, loss, gradients, folders."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from parity_support import random_batch, small_config
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification

transformers = pytest.importorskip("transformers")

LABELS = ("bad", "mixed", "good")


@pytest.fixture
def ours() -> BertForSequenceClassification:
    model = BertForSequenceClassification(BertModel(small_config()), LABELS)
    randomize(model, seed=3)
    return model.eval()


def test_logits_loss_and_gradients(ours: BertForSequenceClassification, tmp_path: Path) -> None:
    ours.save_pretrained(tmp_path)
    reference = transformers.BertForSequenceClassification.from_pretrained(tmp_path).eval()
    batch, targets = random_batch(), torch.tensor([0, 2, 1, 1, 0])
    expected = reference(
        input_ids=batch.token_ids, token_type_ids=batch.segment_ids, attention_mask=batch.mask, labels=targets
    )
    logits = ours(batch.token_ids, batch.segment_ids, batch.mask)
    loss = torch.nn.functional.cross_entropy(logits, targets)
    assert (expected.logits - logits).abs().max() < 1e-5
    assert abs(float((expected.loss - loss).detach())) < 1e-5
    expected.loss.backward()
    loss.backward()
    pairs = [
        (reference.classifier.weight.grad, ours.classifier.weight.grad),
        (reference.bert.pooler.dense.weight.grad, ours.bert.pooler.weight.grad),
        (reference.bert.embeddings.word_embeddings.weight.grad, ours.bert.embeddings.word.weight.grad),
    ]
    for one, two in pairs:
        assert (one - two).abs().max() < 1e-5


def test_folders_go_both_ways(ours: BertForSequenceClassification, tmp_path: Path) -> None:
    ours.save_pretrained(tmp_path / "ours")
    reference = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "ours")
    assert reference.config.id2label == dict(enumerate(LABELS))
    reference.save_pretrained(tmp_path / "theirs")
    back = BertForSequenceClassification.from_pretrained(tmp_path / "theirs")
    assert back.labels == LABELS
    for name, value in ours.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name
    # The encoder alone loads from the same folder, and leaves the head aside.
    assert torch.equal(BertModel.from_pretrained(tmp_path / "ours").pooler.weight, ours.bert.pooler.weight)


def test_encoder_without_a_head_is_refused(ours: BertForSequenceClassification, tmp_path: Path) -> None:
    ours.bert.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="names no labels"):
        BertForSequenceClassification.from_pretrained(tmp_path)
