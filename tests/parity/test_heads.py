"""Every head equals the class of the same name in transformers: logits, loss, gradients, folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from parity_support import ALBERT, DISTILBERT, BatchOfIds, random_batch, small_config
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.tasks.base import IGNORED, Loss
from d2lbert.tasks.tagging import Tagging
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.losses import compute_loss

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
    for expected_gradient, gradient in pairs:
        assert (expected_gradient - gradient).abs().max() < 1e-5


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


@pytest.mark.parametrize("head", [BertForSequenceClassification, BertForTokenClassification])
@pytest.mark.parametrize("config", [small_config(), ALBERT, DISTILBERT], ids=lambda config: config.model_type)
def test_two_labels_without_names(
    config: BertConfig, head: type[BertForSequenceClassification], tmp_path: Path
) -> None:
    """transformers writes no id2label where the labels are its usual two."""
    values = {name: value for name, value in config.to_dict().items() if name not in ("model_type", "architectures")}
    kind = config.architecture.removesuffix("Model")
    theirs = getattr(transformers, kind + head.__name__.removeprefix("Bert"))
    reference = theirs(getattr(transformers, f"{kind}Config")(**values)).eval()
    randomize(reference, seed=8)
    reference.save_pretrained(tmp_path / "theirs")
    assert "id2label" not in json.loads((tmp_path / "theirs" / "config.json").read_text())
    back = head.from_pretrained(tmp_path / "theirs")
    assert back.labels == ("LABEL_0", "LABEL_1")
    batch = random_batch()
    expected = reference(input_ids=batch.token_ids, attention_mask=batch.mask).logits
    logits = back(batch.token_ids, mask=batch.mask)
    kept = batch.mask.bool() if logits.dim() == 3 else torch.ones(len(logits), dtype=torch.bool)
    assert (expected - logits)[kept].abs().max() < 1e-5
    back.save_pretrained(tmp_path / "ours")
    assert head.from_pretrained(tmp_path / "ours").labels == back.labels
    with pytest.raises(UserError, match="the tag 'LABEL_0' is not O, nor B-"):
        Tagging(back.labels)


def test_damaged_label_names_are_one_line(ours: BertForSequenceClassification, tmp_path: Path) -> None:
    ours.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for names in ({"1": "bad", "2": "mixed", "3": "good"}, ["bad", "mixed", "good"]):
        (tmp_path / "config.json").write_text(json.dumps({**config, "id2label": names}))
        with pytest.raises(UserError, match=r"id2label is no table from the numbers 0, 1, \.\.\. to label names"):
            BertForSequenceClassification.from_pretrained(tmp_path)


def test_regression(tmp_path: Path) -> None:
    ours = BertForSequenceClassification(BertModel(small_config()), ["score"])
    randomize(ours, seed=4)
    ours.eval().save_pretrained(tmp_path)
    reference = transformers.BertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert (reference.config.num_labels, reference.config.problem_type) == (1, "regression")
    batch, targets = random_batch(), torch.tensor([0.5, 4.0, 1.0, 2.5, 3.0])
    expected = reference(
        input_ids=batch.token_ids, token_type_ids=batch.segment_ids, attention_mask=batch.mask, labels=targets
    )
    logits = ours(batch.token_ids, batch.segment_ids, batch.mask)
    loss = torch.nn.functional.mse_loss(logits[:, 0], targets)
    assert logits.shape == (5, 1)
    assert (expected.logits - logits).abs().max() < 1e-5
    expected.loss.backward()
    loss.backward()
    assert (reference.classifier.weight.grad - ours.classifier.weight.grad).abs().max() < 1e-5
    assert BertForSequenceClassification.from_pretrained(tmp_path).labels == ("score",)


def test_token_classification(tmp_path: Path) -> None:
    ours = BertForTokenClassification(BertModel(small_config()), LABELS)
    randomize(ours, seed=5)
    ours.eval().save_pretrained(tmp_path / "ours")
    reference = transformers.BertForTokenClassification.from_pretrained(tmp_path / "ours").eval()
    batch = random_batch()
    targets = torch.where(batch.mask.bool(), batch.token_ids % 3, IGNORED)
    expected = reference(
        input_ids=batch.token_ids, token_type_ids=batch.segment_ids, attention_mask=batch.mask, labels=targets
    )
    logits = ours(batch.token_ids, batch.segment_ids, batch.mask)
    kept = batch.mask.bool()
    assert (expected.logits - logits)[kept].abs().max() < 1e-5
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    expected.loss.backward()
    loss.backward()
    query = reference.bert.encoder.layer[0].attention.self.query.weight.grad
    assert (query - ours.bert.encoder.blocks[0].attention.query.weight.grad).abs().max() < 1e-5
    # transformers saves no pooler here; ours loads its folder all the same.
    reference.save_pretrained(tmp_path / "theirs")
    back = BertForTokenClassification.from_pretrained(tmp_path / "theirs")
    assert torch.equal(back(batch.token_ids, batch.segment_ids, batch.mask), logits)


def test_multiple_choice(tmp_path: Path) -> None:
    ours = BertForMultipleChoice(BertModel(small_config()))
    randomize(ours, seed=6)
    ours.eval().save_pretrained(tmp_path / "ours")
    reference = transformers.BertForMultipleChoice.from_pretrained(tmp_path / "ours").eval()
    batch = random_batch()
    # Two questions with two choices each. In transformers the choices are a dimension, here they follow each other.
    ids, segments, mask = batch.token_ids[:4], batch.segment_ids[:4], batch.mask[:4]
    folded = {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}
    expected = reference(**{name: value.view(2, 2, -1) for name, value in folded.items()}, labels=torch.tensor([1, 0]))
    scores = ours(ids, segments, mask)
    assert scores.shape == (4, 1)
    assert (expected.logits.flatten() - scores[:, 0]).abs().max() < 1e-5
    targets = [np.array([0, 1], dtype=np.float32), np.array([1, 0], dtype=np.float32)]
    loss = compute_loss(Loss.CHOICE, scores, targets, batch)
    assert abs(float((expected.loss - loss).detach())) < 1e-5
    expected.loss.backward()
    loss.backward()
    query = reference.bert.encoder.layer[0].attention.self.query.weight.grad
    assert (query - ours.bert.encoder.blocks[0].attention.query.weight.grad).abs().max() < 1e-5
    assert (reference.classifier.weight.grad - ours.classifier.weight.grad).abs().max() < 1e-5
    # transformers names no labels for this head; ours loads its folder all the same.
    reference.save_pretrained(tmp_path / "theirs")
    back = BertForMultipleChoice.from_pretrained(tmp_path / "theirs")
    assert torch.equal(back(ids, segments, mask), scores)


def test_an_encoder_is_no_head_for_choices(ours: BertForSequenceClassification, tmp_path: Path) -> None:
    ours.bert.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="no head for choices; fine-tune it first"):
        BertForMultipleChoice.from_pretrained(tmp_path)


def test_a_folder_of_another_head_is_refused(ours: BertForSequenceClassification, tmp_path: Path) -> None:
    ours.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"of BertForSequenceClassification.*the task that it was fine-tuned for"):
        BertForTokenClassification.from_pretrained(tmp_path)


SPAN_TARGETS = np.array([[3, 5], [0, 0], [IGNORED, IGNORED], [1, 6], [2, 2]])


@pytest.mark.parametrize("arrange", [pad, lambda texts: pack(texts, 24)], ids=["padded", "packed"])
def test_question_answering(arrange: Callable[..., Batch], tmp_path: Path) -> None:
    """transformers takes its softmax over padding too, so it gets each text alone; texts without a span stay out."""
    ours = BertForQuestionAnswering(BertModel(small_config()))
    randomize(ours, seed=6)
    ours.eval().save_pretrained(tmp_path)
    reference = transformers.BertForQuestionAnswering.from_pretrained(tmp_path).eval()
    generator = np.random.default_rng(2)
    texts = [BatchOfIds.encoding(generator, length) for length in (9, 13, 5, 7, 11)]
    batch = arrange(texts)
    logits = ours(to_tensors(batch))
    losses = []
    for text, (row, column), target in zip(texts, batch.starts, torch.from_numpy(SPAN_TARGETS), strict=True):
        known = {} if IGNORED in target else {"start_positions": target[:1], "end_positions": target[1:]}
        alone = reference(input_ids=torch.tensor([text.ids]), token_type_ids=torch.tensor([text.segment_ids]), **known)
        here = logits[row, column : column + len(text.ids)]
        assert (alone.start_logits[0] - here[:, 0]).abs().max() < 1e-5
        assert (alone.end_logits[0] - here[:, 1]).abs().max() < 1e-5
        losses += [alone.loss] if known else []
    expected, loss = torch.stack(losses).mean(), compute_loss(Loss.SPAN, logits, list(SPAN_TARGETS), batch)
    assert abs(float((expected - loss).detach())) < 1e-5
    expected.backward()
    loss.backward()
    query = reference.bert.encoder.layer[0].attention.self.query.weight.grad
    assert (query - ours.bert.encoder.blocks[0].attention.query.weight.grad).abs().max() < 1e-5
    assert (reference.qa_outputs.weight.grad - ours.classifier.weight.grad).abs().max() < 1e-5


def test_folders_of_question_answering_go_both_ways(tmp_path: Path) -> None:
    ours = BertForQuestionAnswering(BertModel(small_config()))
    randomize(ours, seed=7)
    ours.null_threshold = -1.5
    ours.save_pretrained(tmp_path / "ours")
    assert BertForQuestionAnswering.from_pretrained(tmp_path / "ours").null_threshold == -1.5
    reference = transformers.BertForQuestionAnswering.from_pretrained(tmp_path / "ours")
    plain = transformers.BertForQuestionAnswering(transformers.BertConfig.from_pretrained(tmp_path / "ours"))
    plain.config.id2label, plain.config.label2id = {0: "LABEL_0", 1: "LABEL_1"}, {"LABEL_0": 0, "LABEL_1": 1}
    plain.load_state_dict(reference.state_dict())
    plain.save_pretrained(tmp_path / "theirs")  # the usual names are left out of config.json
    assert "id2label" not in (tmp_path / "theirs" / "config.json").read_text()
    back = BertForQuestionAnswering.from_pretrained(tmp_path / "theirs")
    assert back.labels == ("start", "end")
    assert torch.equal(back.classifier.weight, ours.classifier.weight)
    with pytest.raises(UserError, match="of BertForQuestionAnswering, not of BertForTokenClassification"):
        BertForTokenClassification.from_pretrained(tmp_path / "theirs")


def test_a_batch_without_any_place_has_no_loss_and_no_gradient() -> None:
    ours = BertForQuestionAnswering(BertModel(small_config()))
    batch = pad([BatchOfIds.encoding(np.random.default_rng(0), 5)])
    loss = compute_loss(Loss.SPAN, ours(to_tensors(batch)), [np.array([IGNORED, IGNORED])], batch)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert float(ours.classifier.weight.grad.abs().max()) == 0.0


def test_a_threshold_that_is_no_number_is_one_line(tmp_path: Path) -> None:
    BertForQuestionAnswering(BertModel(small_config())).save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"null_threshold": null', '"null_threshold": "low"'))
    with pytest.raises(UserError, match="null_threshold is 'low'; give a number"):
        BertForQuestionAnswering.from_pretrained(tmp_path)
