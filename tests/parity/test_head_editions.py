"""The heads of the MXNet edition equal those of the PyTorch edition: logits, gradients, folders, adapters."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from parity_support import BatchOfIds, small_config

from d2lbert import UserError
from d2lbert.config.adapters import AdapterConfig
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.torch import heads as torch_heads
from d2lbert.torch.adapters import adapted_layers, add_adapters, merge_adapters
from d2lbert.torch.adapters.folder import save_adapters
from d2lbert.torch.bert import BertModel as TorchBert
from d2lbert.torch.pretraining import BertForPretraining as TorchPretraining
from d2lbert.torch.runtime import to_tensors as torch_rows

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run
from mxnet import nd

from d2lbert.mxnet import heads
from d2lbert.mxnet.bert import BertModel
from d2lbert.mxnet.pretraining import BertForPretraining
from d2lbert.mxnet.runtime import to_tensors

LABELS = ("bad", "mixed", "good")
NAMES = {
    "BertForSequenceClassification": LABELS,
    "BertForTokenClassification": LABELS,
    "BertForQuestionAnswering": ("start", "end"),
    "BertForMultipleChoice": ("choice",),
}
LENGTHS = (5, 17, 3, 30, 11, 2, 24, 8)


def _batch(arrange: Callable[..., Batch]) -> Batch:
    generator = np.random.default_rng(3)
    return arrange([BatchOfIds.encoding(generator, length) for length in LENGTHS])


def _heads(name: str, hybridize: bool = False) -> tuple[Any, Any]:
    """The same head with the same random weights in both editions."""
    one = getattr(torch_heads, name)(TorchBert(small_config()), NAMES[name])
    two = getattr(heads, name)(BertModel(small_config()), NAMES[name])
    same_random_parameters(one, two)
    if hybridize:
        two.hybridize()
    return one.eval(), two


def _without_unused(gradients: tuple[list[np.ndarray], dict[str, np.ndarray]]) -> Any:
    """A head of tokens leaves the pooler aside: PyTorch has no gradient there, MXNet one of zeros."""
    outputs, by_name = gradients
    unused = [name for name in by_name if name.startswith("bert.pooler.") and not by_name[name].any()]
    return outputs, {name: gradient for name, gradient in by_name.items() if name not in unused}


@pytest.mark.parametrize("arrange", [pad, pack])
@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_logits_and_gradients(name: str, hybridize: bool, arrange: Callable[..., Batch]) -> None:
    one, two = _heads(name, hybridize)
    batch = _batch(arrange)
    expected = torch_run(one, lambda: [one(torch_rows(batch))], [])
    got = mxnet_run(two, lambda: [two(to_tensors(batch))], [])
    assert_same(expected, _without_unused(got))


@pytest.mark.parametrize("arrange", [pad, pack])
@pytest.mark.parametrize("masked", [None, (1, 4, 40, 61)])
def test_pretraining_heads(masked: tuple[int, ...] | None, arrange: Callable[..., Batch]) -> None:
    one, two = TorchPretraining(small_config()).eval(), BertForPretraining(small_config())
    same_random_parameters(one, two)
    two.hybridize()
    batch = _batch(arrange)
    theirs = None if masked is None else torch.tensor(masked)
    ours = None if masked is None else nd.array(masked)

    def logits(output: Any) -> list[Any]:
        return [output.token_logits, output.next_logits]

    expected = torch_run(one, lambda: logits(one(torch_rows(batch), masked_positions=theirs)), [])
    assert_same(expected, mxnet_run(two, lambda: logits(two(to_tensors(batch), masked_positions=ours)), []))


@pytest.mark.parametrize("name", NAMES)
def test_folders_go_both_ways(name: str, tmp_path: Path) -> None:
    one, two = _heads(name)
    batch = _batch(pack)
    if name == "BertForQuestionAnswering":
        one.null_threshold = two.null_threshold = 1.5
    one.trained_length = two.trained_length = 40
    one.save_pretrained(tmp_path / "torch")
    two.save_pretrained(tmp_path / "mxnet")
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "torch" / file).read_bytes() == (tmp_path / "mxnet" / file).read_bytes()
    back = heads.head_class(tmp_path / "torch" / "config.json").from_pretrained(tmp_path / "torch")
    assert type(back).__name__ == name
    assert back.labels == NAMES[name]
    assert getattr(back, "null_threshold", None) == getattr(one, "null_threshold", None)
    assert back.trained_length == 40
    with torch.no_grad():
        expected = one(torch_rows(batch)).numpy()
    assert np.abs(expected - back(to_tensors(batch)).asnumpy()).max() < 1e-5


def test_pretraining_folders_go_both_ways(tmp_path: Path) -> None:
    one, two = TorchPretraining(small_config()), BertForPretraining(small_config())
    same_random_parameters(one, two)
    for half in (False, True):
        one.save_pretrained(tmp_path / "torch", half)
        two.save_pretrained(tmp_path / "mxnet", half)
        for file in ("model.safetensors", "config.json"):
            assert (tmp_path / "torch" / file).read_bytes() == (tmp_path / "mxnet" / file).read_bytes()
        back = BertForPretraining.from_pretrained(tmp_path / "torch").tensors()
        for name, array in TorchPretraining.from_pretrained(tmp_path / "mxnet").tensors().items():
            assert np.array_equal(array, back[name]), name


def test_both_refuse_an_output_layer_of_its_own(tmp_path: Path) -> None:
    TorchPretraining(small_config()).save_pretrained(tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**fields, "tie_word_embeddings": False}))
    for edition in (TorchPretraining, BertForPretraining):
        with pytest.raises(UserError, match="tie_word_embeddings is False, which d2lbert does not compute"):
            edition.from_pretrained(tmp_path)


def _adapted(tmp_path: Path) -> torch_heads.BertWithHead:
    """A model of PyTorch with adapters, and its folder."""
    torch.manual_seed(4)
    encoder = TorchBert(small_config())
    encoder.save_pretrained(tmp_path / "base")
    model = torch_heads.BertForSequenceClassification(encoder, LABELS)
    add_adapters(model, AdapterConfig(rank=3, alpha=7.0))
    for layer in adapted_layers(model).values():
        torch.nn.init.normal_(layer.up, std=0.1)
    save_adapters(model, tmp_path / "adapters", str(tmp_path / "base"))
    return model.eval()


def test_adapters_are_merged(tmp_path: Path) -> None:
    one, batch = _adapted(tmp_path), _batch(pack)
    back = heads.BertForSequenceClassification.from_pretrained(tmp_path / "adapters")
    with torch.no_grad():
        expected = one(torch_rows(batch)).numpy()
    logits = back(to_tensors(batch)).asnumpy()
    assert np.abs(expected - logits).max() < 1e-5
    # Without the adapters the logits are others, so that equality says something.
    plain = torch_heads.BertForSequenceClassification(TorchBert.from_pretrained(tmp_path / "base"), LABELS).eval()
    plain.classifier = one.classifier
    assert np.abs(plain(torch_rows(batch)).detach().numpy() - logits).max() > 1e-3
    merge_adapters(one)
    merged = back.bert.tensors()
    for name, array in one.bert.tensors().items():
        assert np.abs(array - merged[name]).max() < 1e-6, name


def test_a_head_of_another_task_is_refused(tmp_path: Path) -> None:
    _, two = _heads("BertForTokenClassification")
    two.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="not of BertForSequenceClassification: use the task that it was fine-tuned"):
        heads.BertForSequenceClassification.from_pretrained(tmp_path)
    two.bert.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="has no head for choices; fine-tune it first"):
        heads.BertForMultipleChoice.from_pretrained(tmp_path)


def test_a_relative_of_bert_is_refused(tmp_path: Path) -> None:
    _, two = _heads("BertForTokenClassification")
    two.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "distilbert"}))
    with pytest.raises(UserError, match="distilbert"):
        heads.BertForTokenClassification.from_pretrained(tmp_path)
