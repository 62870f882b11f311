"""Low-rank adapters: where they are, what learns, merging, and their folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from parity_support import DISTILBERT, random_batch, small_config
from random_parameters import randomize
from safetensors.numpy import load_file, save_file
from torch import Tensor, nn

from d2lbert import UserError
from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import (
    LoraLinear,
    adapted_layers,
    add_adapters,
    load_adapters,
    merge_adapters,
    save_adapters,
)
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


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The folder of a small encoder with random weights."""
    encoder = BertModel(small_config())
    randomize(encoder, seed=1)
    encoder.save_pretrained(tmp_path / "base")
    return tmp_path / "base"


def _adapted(base: Path, head: type[BertWithHead] = BertForSequenceClassification) -> BertWithHead:
    """A model whose adapters have random numbers, B too."""
    model = head(BertModel.from_pretrained(base), LABELS if head is not BertForQuestionAnswering else ("start", "end"))
    add_adapters(model, CONFIG)
    for number, layer in enumerate(adapted_layers(model).values()):
        torch.manual_seed(number)
        nn.init.normal_(layer.up, std=0.1)
    return model.eval()


def _logits(model: nn.Module) -> Tensor:
    batch = random_batch()
    return model(batch.token_ids, batch.segment_ids, batch.mask).detach()


def test_the_layer_computes_the_formula() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(5, 4), torch.randn(2, 3, 5)
    layer = LoraLinear(linear, rank=2, alpha=6.0)
    assert torch.equal(layer(x), linear(x))  # B is zero
    nn.init.normal_(layer.up)
    expected = x @ (linear.weight + 6.0 / 2 * layer.up @ layer.down).T + linear.bias
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer.merged()(x), expected)


def test_only_adapters_and_the_head_learn(base: Path) -> None:
    model = BertForSequenceClassification(BertModel.from_pretrained(base), LABELS)
    before = _logits(model.eval())
    add_adapters(model, CONFIG)
    torch.testing.assert_close(_logits(model), before, atol=0, rtol=0)
    learns = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name.rpartition(".")[2] for name in learns if name.startswith("bert.")} == {"up", "down"}
    assert {name for name in learns if not name.startswith("bert.")} == {"classifier.weight", "classifier.bias"}
    frozen = {name: value.clone() for name, value in model.named_parameters() if name not in learns}
    optimizer = torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=0.1)
    for _ in range(2):  # at the first step B is zero, and A has no gradient
        optimizer.zero_grad()
        batch = random_batch()
        model(batch.token_ids, batch.segment_ids, batch.mask).square().sum().backward()
        optimizer.step()
    assert all(torch.equal(value, frozen[name]) for name, value in model.named_parameters() if name in frozen)
    assert (_logits(model) - before).abs().max() > 0.01


@pytest.mark.parametrize(("targets", "count"), [("attention", 2), ("all", 6)])
def test_which_layers_are_adapted(base: Path, targets: str, count: int) -> None:
    blocks = small_config().num_hidden_layers
    for head, pooler in ((BertForSequenceClassification, targets == "all"), (BertForTokenClassification, False)):
        model = head(BertModel.from_pretrained(base), LABELS)
        add_adapters(model, AdapterConfig(rank=2, targets=targets))
        assert len(adapted_layers(model)) == count * blocks + pooler
        assert ("pooler" in adapted_layers(model)) == pooler


def test_merging_changes_no_logit(base: Path) -> None:
    model = _adapted(base)
    before, plain = _logits(model), BertForSequenceClassification(BertModel.from_pretrained(base), LABELS)
    merge_adapters(model)
    torch.testing.assert_close(_logits(model), before, atol=1e-5, rtol=0)
    assert not adapted_layers(model)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("head", [BertForSequenceClassification, BertForTokenClassification, BertForQuestionAnswering])
def test_a_folder_comes_back(base: Path, tmp_path: Path, head: type[BertWithHead]) -> None:
    model = _adapted(base, head)
    save_adapters(model, tmp_path / "adapters", str(base))
    assert {path.name for path in (tmp_path / "adapters").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "config.json",
    }
    loaded = load_adapters(head, tmp_path / "adapters")
    assert torch.equal(_logits(loaded), _logits(model))
    assert loaded.labels == model.labels
    merged = head.from_pretrained(tmp_path / "adapters")
    assert not adapted_layers(merged)
    torch.testing.assert_close(_logits(merged), _logits(model), atol=1e-5, rtol=0)


def test_half_of_the_size(base: Path, tmp_path: Path) -> None:
    model = _adapted(base)
    for half in (False, True):
        save_adapters(model, tmp_path / str(half), str(base), half)
    whole, half_size = (load_file(tmp_path / str(half) / "adapter_model.safetensors") for half in (False, True))
    assert {array.dtype.itemsize for array in whole.values()} == {4}
    assert {array.dtype.itemsize for array in half_size.values()} == {2}
    loaded = BertForSequenceClassification.from_pretrained(tmp_path / "True")
    assert 0 < (_logits(loaded) - _logits(model)).abs().max() < 0.01


def test_a_relative_without_a_pooler(tmp_path: Path) -> None:
    encoder = DistilBertModel(DISTILBERT)
    randomize(encoder, seed=1)
    encoder.save_pretrained(tmp_path / "base")
    model = BertForSequenceClassification(encoder, LABELS).eval()
    add_adapters(model, CONFIG)
    save_adapters(model, tmp_path / "adapters", str(tmp_path / "base"))
    ids = torch.tensor([[1, 2, 3]])
    assert torch.equal(load_adapters(BertForSequenceClassification, tmp_path / "adapters")(ids), model(ids))


def test_adapters_are_added_once_and_saved_where_there_are_some(base: Path, tmp_path: Path) -> None:
    model = BertForSequenceClassification(BertModel.from_pretrained(base), LABELS)
    with pytest.raises(UserError, match=r"^the model has no adapters to save: add them first"):
        save_adapters(model, tmp_path / "none", str(base))
    assert not (tmp_path / "none").exists()
    add_adapters(model)
    with pytest.raises(UserError, match=r"^the model has adapters already: merge them first"):
        add_adapters(model)


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
def test_a_folder_that_does_not_fit_is_refused(base: Path, tmp_path: Path, damage, complaint: str) -> None:
    save_adapters(_adapted(base), tmp_path / "adapters", str(base))
    path = tmp_path / "adapters" / "adapter_model.safetensors"
    tensors = load_file(path)
    damage(tensors)
    save_file(tensors, path)
    with pytest.raises(UserError, match=complaint):
        load_adapters(BertForSequenceClassification, tmp_path / "adapters")


def test_another_head_is_refused(base: Path, tmp_path: Path) -> None:
    save_adapters(_adapted(base), tmp_path / "adapters", str(base))
    assert json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())["task_type"] == "SEQ_CLS"
    with pytest.raises(UserError, match="is of BertForSequenceClassification, not of BertForTokenClassification"):
        load_adapters(BertForTokenClassification, tmp_path / "adapters")
