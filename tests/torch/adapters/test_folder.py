"""Folders of adapters: written, read, and refused where they do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from parity_support import DISTILBERT
from random_parameters import randomize
from safetensors.numpy import load_file, save_file

from d2lbert import UserError
from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import adapted_layers, add_adapters, load_adapters, save_adapters
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertWithHead,
)
from d2lbert.torch.relatives import DistilBertModel

LABELS = ("bad", "mixed", "good")
CONFIG = AdapterConfig(rank=3, alpha=6.0)


@pytest.mark.parametrize("head", [BertForSequenceClassification, BertForTokenClassification, BertForQuestionAnswering])
def test_a_folder_comes_back(base: Path, tmp_path: Path, head: type[BertWithHead], adapted, logits) -> None:
    model = adapted(base, head)
    save_adapters(model, tmp_path / "adapters", str(base))
    assert {path.name for path in (tmp_path / "adapters").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "config.json",
    }
    loaded = load_adapters(head, tmp_path / "adapters")
    assert torch.equal(logits(loaded), logits(model))
    assert loaded.labels == model.labels
    merged = head.from_pretrained(tmp_path / "adapters")
    assert not adapted_layers(merged)
    torch.testing.assert_close(logits(merged), logits(model), atol=1e-5, rtol=0)


def test_what_the_folder_says_besides_weights_is_taken_over(base: Path, tmp_path: Path, adapted) -> None:
    model = adapted(base, BertForQuestionAnswering)
    model.null_threshold, model.trained_length = -1.5, 40
    save_adapters(model, tmp_path / "adapters", str(base))
    for load in (load_adapters, lambda head, folder: head.from_pretrained(folder)):
        loaded = load(BertForQuestionAnswering, tmp_path / "adapters")
        assert (loaded.null_threshold, loaded.trained_length) == (-1.5, 40)


def test_no_random_number_is_drawn_for_the_encoder_of_a_folder(base: Path) -> None:
    drawn, loaded = BertModel.from_pretrained(base), BertModel.from_pretrained(base, initialize=False)
    assert all(torch.equal(value, loaded.state_dict()[name]) for name, value in drawn.state_dict().items())
    torch.manual_seed(0)
    before = torch.get_rng_state()
    BertModel.from_pretrained(base, initialize=False)
    assert torch.equal(torch.get_rng_state(), before)
    BertModel.from_pretrained(base)  # a head that is made next depends on this
    assert not torch.equal(torch.get_rng_state(), before)


def test_half_of_the_size(base: Path, tmp_path: Path, adapted, logits) -> None:
    model = adapted(base)
    for half in (False, True):
        save_adapters(model, tmp_path / str(half), str(base), half)
    whole, half_size = (load_file(tmp_path / str(half) / "adapter_model.safetensors") for half in (False, True))
    assert {array.dtype.itemsize for array in whole.values()} == {4}
    assert {array.dtype.itemsize for array in half_size.values()} == {2}
    loaded = BertForSequenceClassification.from_pretrained(tmp_path / "True")
    assert 0 < (logits(loaded) - logits(model)).abs().max() < 0.01


def test_a_relative_without_a_pooler(tmp_path: Path) -> None:
    encoder = DistilBertModel(DISTILBERT)
    randomize(encoder, seed=1)
    encoder.save_pretrained(tmp_path / "base")
    model = BertForSequenceClassification(encoder, LABELS).eval()
    add_adapters(model, CONFIG)
    save_adapters(model, tmp_path / "adapters", str(tmp_path / "base"))
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(load_adapters(BertForSequenceClassification, tmp_path / "adapters")(ids), model(ids))


def _shorter(tensors: dict) -> None:
    name = next(name for name in tensors if "lora_A" in name)
    tensors[name] = tensors[name][:, :-1]


def _without_b(tensors: dict) -> None:
    del tensors[next(name for name in tensors if "lora_B" in name)]


def _elsewhere(tensors: dict) -> None:
    name = next(name for name in tensors if "lora_A" in name)
    tensors[name.replace("layer.0", "layer.9")] = tensors.pop(name)


def _without_adapters(tensors: dict) -> None:
    for name in [name for name in tensors if "lora" in name]:
        del tensors[name]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (_shorter, "has shape .* but the configuration asks for"),
        (_without_b, "lacks 1 of .* tensors, first '.*lora_B.weight'"),
        (_elsewhere, "adapts encoder.layer.9.* does not have: give the encoder"),
        (_without_adapters, "holds no adapters: give the encoder"),
    ],
)
def test_a_folder_that_does_not_fit_is_refused(base: Path, tmp_path: Path, damage, complaint: str, adapted) -> None:
    save_adapters(adapted(base), tmp_path / "adapters", str(base))
    path = tmp_path / "adapters" / "adapter_model.safetensors"
    tensors = load_file(path)
    damage(tensors)
    save_file(tensors, path)
    with pytest.raises(UserError, match=complaint):
        load_adapters(BertForSequenceClassification, tmp_path / "adapters")


def test_another_head_is_refused(base: Path, tmp_path: Path, adapted) -> None:
    save_adapters(adapted(base), tmp_path / "adapters", str(base))
    assert json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())["task_type"] == "SEQ_CLS"
    with pytest.raises(UserError, match="is of BertForSequenceClassification, not of BertForTokenClassification"):
        load_adapters(BertForTokenClassification, tmp_path / "adapters")
