"""Low-rank adapters equal those of the package peft: logits, gradients, training steps, merging, folders both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from parity_support import random_batch, small_config
from random_parameters import randomize
from torch import Tensor, nn

from d2lbert.config.adapters import AdapterConfig
from d2lbert.torch.adapters import adapted_layers, add_adapters, load_adapters, merge_adapters, save_adapters
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

LABELS = ("bad", "mixed", "good")
HEADS = {
    "BertForSequenceClassification": (BertForSequenceClassification, LABELS),
    "BertForTokenClassification": (BertForTokenClassification, LABELS),
    "BertForQuestionAnswering": (BertForQuestionAnswering, ("start", "end")),
}


def _save_ours(folder: Path, head: str = "BertForSequenceClassification", targets: str = "all") -> Any:
    """Write an encoder and adapters beside it, all numbers random; return the model."""
    head_class, labels = HEADS[head]
    model = head_class(BertModel(small_config()), labels)
    randomize(model, seed=3)
    model.save_pretrained(folder / "base")
    add_adapters(model, AdapterConfig(rank=3, alpha=12.0, targets=targets))
    for number, layer in enumerate(adapted_layers(model).values()):
        torch.manual_seed(number)
        nn.init.normal_(layer.down, std=0.1)
        nn.init.normal_(layer.up, std=0.1)
    save_adapters(model, folder / "adapters", str(folder / "base"))
    return model.eval()


def _load_theirs(folder: Path, head: str = "BertForSequenceClassification") -> Any:
    base = getattr(transformers, head).from_pretrained(folder / "base")
    return peft.PeftModel.from_pretrained(base, folder / "adapters", is_trainable=True).eval()


def _both(ours: Any, theirs: Any) -> tuple[Tensor, Tensor]:
    """The logits of both; of question answering (B, L, 2)."""
    batch = random_batch()
    # Around a model of question answering, peft 0.21 drops the segments; what it is around takes them.
    whole = theirs.base_model if isinstance(theirs, peft.PeftModel) else theirs
    expected = whole(input_ids=batch.token_ids, token_type_ids=batch.segment_ids, attention_mask=batch.mask)
    if hasattr(expected, "start_logits"):
        expected_logits = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    else:
        expected_logits = expected.logits
    logits = ours(batch.token_ids, batch.segment_ids, batch.mask)
    if logits.dim() == 3:  # what stands on padding is nobody's
        keep = batch.mask.bool()
        return logits[keep], expected_logits[keep]
    return logits, expected_logits


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("targets", ["attention", "all"])
def test_peft_reads_our_folder(tmp_path: Path, head: str, targets: str) -> None:
    ours = _save_ours(tmp_path, head, targets)
    theirs = _load_theirs(tmp_path, head)
    logits, expected = _both(ours, theirs)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    learned = sum(parameter.numel() for parameter in ours.parameters() if parameter.requires_grad)
    assert theirs.get_nb_trainable_parameters()[0] == learned


def test_gradients_and_steps_of_training(tmp_path: Path) -> None:
    ours = _save_ours(tmp_path)
    theirs = _load_theirs(tmp_path)
    optimizers = [
        torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=0.01)
        for model in (ours, theirs)
    ]
    before = _both(ours, theirs)[0].detach()
    layer = "base_model.model.bert.encoder.layer.1.intermediate.dense"
    adapter = adapted_layers(ours)["encoder.blocks.1.feed_forward.expand"]
    for _ in range(3):
        for logits in _both(ours, theirs):
            logits.square().sum().backward()
        pairs = [
            (adapter.down, theirs.get_parameter(f"{layer}.lora_A.default.weight")),
            (adapter.up, theirs.get_parameter(f"{layer}.lora_B.default.weight")),
            (
                ours.classifier.weight,
                theirs.get_parameter("base_model.model.classifier.modules_to_save.default.weight"),
            ),
        ]
        for one, other in pairs:
            assert one.grad is not None
            assert one.grad.abs().max() > 1e-3
            torch.testing.assert_close(one.grad, other.grad, atol=1e-5, rtol=1e-4)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    logits, expected = _both(ours, theirs)
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=0)
    assert (logits - before).abs().max() > 0.01


def test_merged_models_are_equal(tmp_path: Path) -> None:
    ours, theirs = _save_ours(tmp_path), _load_theirs(tmp_path).merge_and_unload()
    merge_adapters(ours)
    expected = theirs.bert.encoder.layer[0].attention.self.query.weight
    torch.testing.assert_close(ours.bert.encoder.blocks[0].attention.query.weight, expected, atol=1e-6, rtol=0)
    logits, expected = _both(ours, theirs)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("modules", [["query", "value"], "all-linear"])
def test_we_read_the_folder_of_peft(tmp_path: Path, modules: Any) -> None:
    """It writes no config.json: the labels have no names then."""
    _save_ours(tmp_path)
    base = transformers.BertForSequenceClassification.from_pretrained(tmp_path / "base")
    config = peft.LoraConfig(task_type="SEQ_CLS", r=2, lora_alpha=5, target_modules=modules, init_lora_weights=False)
    theirs = peft.get_peft_model(base, config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    ours = load_adapters(BertForSequenceClassification, tmp_path / "theirs")
    logits, expected = _both(ours, theirs)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    assert ours.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
