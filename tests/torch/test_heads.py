"""Heads: shapes of their logits, names of their outputs, the layer that one brings where the encoder has no pooler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from random_parameters import randomize
from safetensors.numpy import load_file, save_file
from torch import nn

from d2lbert.config import BertConfig, DistilBertConfig
from d2lbert.data.batching import pack
from d2lbert.tasks.multiple_choice import MultipleChoice
from d2lbert.tasks.question_answering import QuestionAnswering
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    CHOICE_LABELS,
    SPAN_LABELS,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from d2lbert.torch.relatives import DistilBertModel
from d2lbert.torch.runtime import to_tensors

TOKENIZER = WordPiece(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film"])
SIZES = {"vocab_size": 8, "hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
LABELS = ("bad", "mixed", "good")
HEADS = {
    BertForSequenceClassification: LABELS,
    BertForTokenClassification: LABELS,
    BertForMultipleChoice: CHOICE_LABELS,
    BertForQuestionAnswering: SPAN_LABELS,
}
POOLED = (BertForSequenceClassification, BertForMultipleChoice)


def _head(head: type, encoder: BertModel | None = None) -> nn.Module:
    torch.manual_seed(0)
    return head(encoder or BertModel(BertConfig(**SIZES)), HEADS[head]).eval()


def test_outputs_bear_the_names_of_the_tasks() -> None:
    """The heads know no task, so each writes the names by itself."""
    assert QuestionAnswering.labels == SPAN_LABELS
    assert MultipleChoice.labels == CHOICE_LABELS
    encoder = BertModel(BertConfig(**SIZES))
    assert BertForQuestionAnswering(encoder).labels == SPAN_LABELS
    assert BertForMultipleChoice(encoder).labels == CHOICE_LABELS


@pytest.mark.parametrize("head", HEADS)
def test_one_row_of_logits_a_text_or_a_token(head: type) -> None:
    model, ids = _head(head), torch.tensor([[2, 5, 7, 3], [2, 6, 3, 0]])
    logits = model(ids, mask=(ids > 0).long())
    assert logits.shape == ((2, len(HEADS[head])) if head in POOLED else (2, 4, len(HEADS[head])))


@pytest.mark.parametrize("head", POOLED)
def test_packed_texts_have_the_logits_that_they_have_alone(head: type) -> None:
    model = _head(head)
    randomize(model, seed=2)
    encodings = TOKENIZER.encode_batch(["good film", "bad", "film good bad"])
    packed = model(to_tensors(pack(encodings, 9)))
    alone = torch.cat([model(torch.tensor([one.ids])) for one in encodings])
    assert packed.shape == (3, len(HEADS[head]))
    assert torch.allclose(packed, alone, atol=1e-5)


@pytest.mark.parametrize("head", POOLED)
def test_without_a_pooler_the_head_brings_a_layer_of_its_own(head: type) -> None:
    encoder = DistilBertModel(DistilBertConfig(**SIZES))
    assert encoder.pooler is None
    model, ids = _head(head, encoder), torch.tensor([[2, 5, 7, 3]])
    randomize(model, seed=3)
    first = encoder(ids).sequence[:, 0]
    inner = model.pre_classifier[0]
    hidden = (first @ inner.weight.T + inner.bias).clamp(min=0)
    assert (hidden == 0).any()
    expected = hidden @ model.classifier.weight.T + model.classifier.bias
    assert torch.allclose(model(ids), expected, atol=1e-6)


def test_with_a_pooler_there_is_no_layer_more() -> None:
    model, ids = _head(BertForSequenceClassification), torch.tensor([[2, 5, 7, 3]])
    expected = model.classifier(model.bert(ids).pooled)
    assert torch.allclose(model(ids), expected, atol=1e-6)
    names = {name for name, _ in model.named_parameters() if not name.startswith("bert.")}
    assert names == {"classifier.weight", "classifier.bias"}


@pytest.mark.parametrize("head", HEADS)
def test_dropout_before_the_last_layer_but_not_for_questions(head: type) -> None:
    model = _head(head, BertModel(BertConfig(hidden_dropout_prob=0.75, **SIZES)))
    rate = model.dropout.p if isinstance(model.dropout, nn.Dropout) else None
    assert rate == (None if head is BertForQuestionAnswering else 0.75)


def test_the_last_layer_starts_small_and_without_bias() -> None:
    torch.manual_seed(0)
    encoder = BertModel(BertConfig(initializer_range=0.5, **{**SIZES, "hidden_size": 300}))
    layer = BertForSequenceClassification(encoder, LABELS).classifier
    assert float(layer.weight.detach().std()) == pytest.approx(0.5, rel=0.1)
    assert not layer.bias.any()


@pytest.mark.parametrize("head", HEADS)
def test_a_folder_keeps_names_and_weights(head: type, tmp_path: Path) -> None:
    model = _head(head)
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == [head.__name__]
    assert config["id2label"] == {str(place): label for place, label in enumerate(HEADS[head])}
    assert config["label2id"] == {label: place for place, label in enumerate(HEADS[head])}
    back = head.from_pretrained(tmp_path)
    assert back.labels == HEADS[head]
    assert not back.training
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in model.state_dict().items())


def test_a_pooler_that_the_file_lacks_is_that_of_a_new_model(tmp_path: Path) -> None:
    """All else of a file is loaded, and for what is loaded nothing is drawn; this is not."""
    _head(BertForTokenClassification).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: array for name, array in tensors.items() if "pooler" not in name}, tmp_path / "model.safetensors")

    def pooler(seed: int) -> torch.nn.Linear:
        torch.manual_seed(seed)
        found = BertForTokenClassification.from_pretrained(tmp_path).bert.pooler
        assert found is not None
        return found

    first = pooler(0)
    assert float(first.weight.detach().std()) == pytest.approx(0.02, rel=0.3)
    assert torch.equal(first.weight, pooler(0).weight)
    assert not torch.equal(first.weight, pooler(1).weight)  # memory that nobody filled depends on no seed
    assert not first.bias.any()


def test_a_head_without_a_pooler_comes_back_with_its_layer(tmp_path: Path) -> None:
    model = _head(BertForSequenceClassification, DistilBertModel(DistilBertConfig(**SIZES)))
    model.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [
        "DistilBertForSequenceClassification"
    ]
    back = BertForSequenceClassification.from_pretrained(tmp_path)
    assert isinstance(back.bert, DistilBertModel)
    assert torch.equal(back.pre_classifier[0].weight, model.pre_classifier[0].weight)


def test_one_label_alone_is_a_regression(tmp_path: Path) -> None:
    for labels, kind in ((["score"], "regression"), (["no", "yes"], None)):
        BertForSequenceClassification(BertModel(BertConfig(**SIZES)), labels).save_pretrained(tmp_path)
        assert json.loads((tmp_path / "config.json").read_text()).get("problem_type") == kind
