"""Heads on ALBERT and DistilBERT equal the classes of transformers: logits, loss, gradients, folders both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity_support import ALBERT, DISTILBERT, BatchOfIds, random_batch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.config import BertConfig
from d2lbert.data.batching import pack, pad
from d2lbert.torch import heads
from d2lbert.torch.relatives import encoder_class
from d2lbert.torch.runtime import to_tensors

transformers = pytest.importorskip("transformers")

CONFIGS = [ALBERT, DISTILBERT]
HEADS = ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"]
LABELS = ("bad", "mixed", "good")


def head_on(config: BertConfig, head: str) -> Any:
    """Return a head on a random encoder; some heads choose their labels themselves."""
    labels = () if head in ("ForQuestionAnswering", "ForMultipleChoice") else (LABELS,)
    model = getattr(heads, f"Bert{head}")(encoder_class(config.model_type)(config), *labels)
    randomize(model, seed=7)
    return model.eval()


def reference_logits(reference: Any, batch: BatchOfIds, head: str) -> torch.Tensor:
    """Return the logits of a model of transformers, in the shape of ours."""
    inputs = {"input_ids": batch.token_ids, "attention_mask": batch.mask}
    if reference.config.model_type == "albert":
        inputs["token_type_ids"] = batch.segment_ids
    if head == "ForMultipleChoice":  # one question with all texts as its choices
        return reference(**{name: value[None] for name, value in inputs.items()}).logits[0, :, None]
    found = reference(**inputs)
    if head == "ForQuestionAnswering":
        return torch.stack([found.start_logits, found.end_logits], dim=-1)
    return found.logits


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("config", CONFIGS, ids=["albert", "distilbert"])
def test_logits_gradients_and_folders_are_equal(config: BertConfig, head: str, tmp_path: Path) -> None:
    ours = head_on(config, head)
    ours.save_pretrained(tmp_path / "ours")
    name = config.architecture.removesuffix("Model") + head
    reference = getattr(transformers, name).from_pretrained(tmp_path / "ours").eval()
    batch = random_batch()
    expected, got = reference_logits(reference, batch, head), ours(batch.token_ids, batch.segment_ids, batch.mask)
    kept = batch.mask.bool() if got.dim() == 3 else torch.ones(len(got), dtype=torch.bool)
    assert expected.shape == got.shape
    assert (expected - got)[kept].abs().max() < 1e-5
    for logits in (expected, got):
        logits[kept].square().mean().backward()
    table = reference.base_model.embeddings.word_embeddings.weight.grad
    assert (table - ours.bert.embeddings.word.weight.grad).abs().max() < 1e-5
    last = dict(reference.named_parameters())[f"{ours.layer_name}.weight"].grad
    assert (last - ours.classifier.weight.grad).abs().max() < 1e-5

    reference.save_pretrained(tmp_path / "theirs")
    for folder in ("ours", "theirs"):
        back = type(ours).from_pretrained(tmp_path / folder)
        assert (type(back.bert), back.bert.config, back.labels) == (type(ours.bert), config, ours.labels)
        for parameter, value in ours.state_dict().items():
            # transformers saves no pooler where nothing reads it
            assert "bert.pooler" in parameter or torch.equal(value, back.state_dict()[parameter]), parameter


@pytest.mark.parametrize("config", CONFIGS, ids=["albert", "distilbert"])
def test_packed_rows_give_the_same_logits(config: BertConfig) -> None:
    generator = np.random.default_rng(3)
    encodings = [BatchOfIds.encoding(generator, length) for length in (5, 17, 3, 30, 11, 2)]
    model = head_on(config, "ForSequenceClassification")
    one, two = (model(to_tensors(batch)) for batch in (pad(encodings), pack(encodings, width=32)))
    assert (one - two).abs().max() < 1e-5


def test_another_head_is_refused_by_its_name(tmp_path: Path) -> None:
    head_on(ALBERT, "ForTokenClassification").save_pretrained(tmp_path / "albert")
    with pytest.raises(UserError, match="is of AlbertForTokenClassification, not of AlbertForSequenceClassificat"):
        heads.BertForSequenceClassification.from_pretrained(tmp_path / "albert")
    encoder_class("distilbert")(DISTILBERT).save_pretrained(tmp_path / "encoder")
    with pytest.raises(UserError, match="names no labels"):
        heads.BertForSequenceClassification.from_pretrained(tmp_path / "encoder")
    with pytest.raises(UserError, match="has no head for choices"):
        heads.BertForMultipleChoice.from_pretrained(tmp_path / "encoder")


def test_a_file_without_the_layer_of_a_distilbert_is_refused(tmp_path: Path) -> None:
    """A file without pre_classifier would give random answers."""
    from safetensors.numpy import load_file, save_file

    head_on(DISTILBERT, "ForSequenceClassification").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    kept = {name: array for name, array in load_file(path).items() if "pre_classifier" not in name}
    save_file(kept, path, metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"lacks 2 of 4 tensors, first 'pre_classifier\.weight'"):
        heads.BertForSequenceClassification.from_pretrained(tmp_path)
