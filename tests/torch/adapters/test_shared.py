"""One encoder gives each text what its own model would give it, whoever shares the batch."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import torch

from d2lbert import UserError
from d2lbert.data.batching import Batch, pack, pad
from d2lbert.text import Encoding
from d2lbert.torch.adapters import load_adapters, merge_adapters, save_adapters
from d2lbert.torch.adapters.layer import adapted_layers
from d2lbert.torch.adapters.shared import SharedEncoder, SharedLinear
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertWithHead,
)
from d2lbert.torch.runtime import to_tensors
from d2lbert.torch.training.losses import by_token

HEADS = [BertForSequenceClassification, BertForTokenClassification, BertForQuestionAnswering]


def encode(*ids: int) -> Encoding:
    count = len(ids)
    return Encoding(list(ids), [0] * count, ["x"] * count, [(0, 1)] * count, [False] * count)


TEXTS = [encode(1, 2, 3), encode(4, 5), encode(6, 7, 8, 9, 10), encode(3, 1), encode(2, 2, 7), encode(9)]


@pytest.fixture
def heads(base: Path, tmp_path: Path, adapted) -> list[BertWithHead]:
    """Three models of different tasks, each loaded with its adapters."""
    for head in HEADS:
        save_adapters(adapted(base, head), tmp_path / head.__name__, str(base))
    return [load_adapters(head, tmp_path / head.__name__) for head in HEADS]


def alone(head: BertWithHead, text: Encoding) -> np.ndarray:
    """The logits of a text from its own model."""
    batch = pad([text])
    with torch.inference_mode():
        logits = head(to_tensors(batch))
        return (logits[0] if logits.dim() == 2 else by_token(logits, batch)).numpy()


@pytest.mark.parametrize("batch", [pack(TEXTS), pack(TEXTS, width=6), pad(TEXTS)], ids=["packed", "narrow", "padded"])
def test_texts_of_three_tasks_in_one_batch(base: Path, heads: list[BertWithHead], batch: Batch) -> None:
    owners = [heads[number % 3] for number in range(len(TEXTS))]
    expected = [alone(head, text) for head, text in zip(owners, TEXTS, strict=True)]
    shared = SharedEncoder(BertModel.from_pretrained(base))
    for head in heads:
        shared.add(head)
    assert len({id(head.bert) for head in heads}) == 1
    for found, right in zip(shared.logits(batch, owners), expected, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-5)


def test_heads_of_one_batch_differ_by_their_adapters(base: Path, heads: list[BertWithHead]) -> None:
    """Without its adapters a head answers otherwise, so the comparison above could fail."""
    bare = BertForSequenceClassification(BertModel.from_pretrained(base), heads[0].labels)
    bare.classifier = heads[0].classifier
    assert np.abs(alone(bare.eval(), TEXTS[0]) - alone(heads[0], TEXTS[0])).max() > 1e-3


def test_a_head_without_adapters_shares_too(base: Path, heads: list[BertWithHead]) -> None:
    plain = BertForTokenClassification(BertModel.from_pretrained(base), ["a", "b"]).eval()
    expected = [alone(plain, TEXTS[0]), alone(heads[1], TEXTS[1])]
    shared = SharedEncoder(BertModel.from_pretrained(base))
    shared.add(plain)
    shared.add(heads[1])
    found = shared.logits(pack(TEXTS[:2]), [plain, heads[1]])
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-5)


def test_what_a_head_added_goes_with_it(base: Path, heads: list[BertWithHead]) -> None:
    shared = SharedEncoder(BertModel.from_pretrained(base))
    for head in heads:
        shared.add(head)
    layers = [layer for layer in shared.bert.modules() if isinstance(layer, SharedLinear)]
    # The two heads on tokens have no adapter in the pooler.
    assert sorted({len(layer.updates) for layer in layers}) == [1, 3]
    del heads[:], head
    gc.collect()
    assert {len(layer.updates) for layer in layers} == {0}


def test_adapters_of_another_encoder_are_refused(base: Path, heads: list[BertWithHead]) -> None:
    other = BertModel.from_pretrained(base)
    with torch.no_grad():
        other.encoder.layers()[0].attention.query.weight += 0.1
    with pytest.raises(
        UserError, match=r"trained beside another encoder: encoder\.blocks\.0\.attention\.query differs"
    ):
        SharedEncoder(other).add(heads[0])


def test_merged_and_shared_agree(base: Path, heads: list[BertWithHead]) -> None:
    shared = SharedEncoder(BertModel.from_pretrained(base))
    right = [alone(heads[0], text) for text in TEXTS]
    merged = load_adapters_again(heads[0])
    shared.add(heads[0])
    for text, expected, found in zip(TEXTS, right, shared.logits(pack(TEXTS), [heads[0]] * len(TEXTS)), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(alone(merged, text), expected, atol=1e-5)


def load_adapters_again(head: BertWithHead) -> BertWithHead:
    """A copy of a model whose adapters are merged."""
    import copy

    merged = copy.deepcopy(head)
    merge_adapters(merged)
    assert not adapted_layers(merged)
    return merged
