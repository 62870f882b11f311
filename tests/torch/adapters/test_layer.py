"""Low-rank adapters: where they are, what learns, and merging."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from parity_support import random_batch, small_config
from torch import nn

from d2lbert import UserError
from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import LoraLinear, adapted_layers, add_adapters, merge_adapters, save_adapters
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification

LABELS = ("bad", "mixed", "good")
CONFIG = AdapterConfig(rank=3, alpha=6.0)


def test_the_layer_computes_the_formula() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(5, 4), torch.randn(2, 3, 5)
    layer = LoraLinear(linear, rank=2, alpha=6.0)
    assert torch.equal(layer(x), linear(x))  # B is zero
    nn.init.normal_(layer.up)
    expected = x @ (linear.weight + 6.0 / 2 * layer.up @ layer.down).T + linear.bias
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer.merged()(x), expected)


def test_only_adapters_and_the_head_learn(base: Path, logits) -> None:
    model = BertForSequenceClassification(BertModel.from_pretrained(base), LABELS)
    before = logits(model.eval())
    add_adapters(model, CONFIG)
    torch.testing.assert_close(logits(model), before, atol=0, rtol=0)
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
    assert (logits(model) - before).abs().max() > 0.01


@pytest.mark.parametrize(("targets", "count"), [("attention", 2), ("all", 6)])
def test_which_layers_areadapted(base: Path, targets: str, count: int) -> None:
    blocks = small_config().num_hidden_layers
    for head, pooler in ((BertForSequenceClassification, targets == "all"), (BertForTokenClassification, False)):
        model = head(BertModel.from_pretrained(base), LABELS)
        add_adapters(model, AdapterConfig(rank=2, targets=targets))
        assert len(adapted_layers(model)) == count * blocks + pooler
        assert ("pooler" in adapted_layers(model)) == pooler


def test_merging_changes_no_logit(base: Path, adapted, logits) -> None:
    model = adapted(base)
    before, plain = logits(model), BertForSequenceClassification(BertModel.from_pretrained(base), LABELS)
    merge_adapters(model)
    torch.testing.assert_close(logits(model), before, atol=1e-5, rtol=0)
    assert not adapted_layers(model)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_adapters_are_added_once_and_saved_where_there_are_some(base: Path, tmp_path: Path) -> None:
    model = BertForSequenceClassification(BertModel.from_pretrained(base), LABELS)
    with pytest.raises(UserError, match=r"^the model has no adapters to save: add them first"):
        save_adapters(model, tmp_path / "none", str(base))
    assert not (tmp_path / "none").exists()
    add_adapters(model)
    with pytest.raises(UserError, match=r"^the model has adapters already: merge them first"):
        add_adapters(model)
