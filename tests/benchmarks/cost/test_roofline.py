"""What a step needs and runs is counted as PyTorch counts it; its time is told apart without a rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.cost.roofline import (
    OUTPUT,
    PREPARED,
    REST,
    SENTENCES,
    WASTED,
    Work,
    classifier_of_eight_bits,
    finetuning,
    in_eight_bits,
    inference,
    lengths_of,
    measure,
)
from benchmarks.integer_operations import IntegerProduct
from benchmarks.operations import Products, encoder_operations, parts_of, rate_of
from d2lbert import get_model
from d2lbert.config import BertConfig
from d2lbert.data.batching import pack, pad
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.runtime import to_tensors

SIZES = BertConfig(vocab_size=30522, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64)


def encodings(*texts: str) -> list[Any]:
    return get_model("minilm", pretrained=False)[1].encode_batch(list(texts))


def test_needed_operations_are_those_that_run_where_nothing_is_padded() -> None:
    model, rows = BertModel(SIZES).eval(), to_tensors(pad(encodings("one two three", "four five six")))
    with torch.no_grad(), FlopCounterMode(display=False) as counted, Products() as noted:
        model.forward_pooled(rows)
    length = rows.token_ids.shape[1]
    run = {product: product.operations * times for product, times in noted.found.items()}
    assert encoder_operations(SIZES, [(length, 1), (length, 1)]) == sum(run.values())
    # PyTorch's counter does not know the fused attention of a processor.
    assert counted.get_total_flops() == sum(count for product, count in run.items() if len(product.one) == 2)


def test_products_are_those_that_pytorch_counts_forward_and_backward() -> None:
    layer, x = torch.nn.Linear(8, 4), torch.ones(5, 8, requires_grad=True)
    with Products() as noted:
        layer(x).sum().backward()
    with FlopCounterMode(display=False) as counted:
        layer(x).sum().backward()
    assert sum(product.operations * times for product, times in noted.found.items()) == counted.get_total_flops()
    assert noted.found.total() == 3
    assert rate_of(noted.found) > 0


def test_the_products_inside_fused_attention_are_noted() -> None:
    q = torch.randn(2, 3, 5, 4, requires_grad=True)
    with Products() as noted:
        torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
    operations = sum(product.operations * times for product, times in noted.found.items())
    assert operations == 7 * 2 * (2 * 3) * 5 * 5 * 4


def test_lengths_are_those_of_the_texts_packed_or_not() -> None:
    texts = encodings("one", "two three four", "five six")
    assert sorted(lengths_of(pack(texts))) == sorted(lengths_of(pad(texts))) == [3, 4, 5]


def test_time_is_told_apart() -> None:
    def step() -> None:
        torch.nn.functional.gelu(torch.ones(50, 50) @ torch.ones(50, 50)).softmax(dim=-1)

    parts = parts_of(step)
    assert {"matrix products", "GELU", "attention"} <= set(parts)
    assert all(seconds > 0 for seconds in parts.values())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[BertForSequenceClassification, Path]:
    """A classifier and its graph of 8 bits, written once."""
    return classifier_of_eight_bits(tmp_path_factory.mktemp("graph"))


KINDS: dict[str, Callable[[list[Any], Any], Work]] = {
    "inference": lambda texts, _: inference("minilm", texts),
    "8 bits": lambda texts, small: in_eight_bits(texts, *small),
    "fine-tuning": lambda texts, _: finetuning(texts),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_step_is_measured(kind: str, small: tuple[BertForSequenceClassification, Path]) -> None:
    texts = encodings("a warm and funny film", "dull", "no")
    found = measure(KINDS[kind](texts, small), turns=2)
    assert sum(found["parts"].values()) == pytest.approx(1)
    assert {PREPARED, REST, "matrix products", OUTPUT, WASTED} <= set(found["parts"])
    assert all(share >= 0 for share in found["parts"].values())
    assert found["needed_operations"] <= found["executed_operations"]
    assert found["tokens"] == sum(len(one.ids) for one in texts)
    assert 0 < found["real_share_of_rows"] <= 1


def test_a_graph_of_8_bits_multiplies_as_often_as_the_model(small: tuple[BertForSequenceClassification, Path]) -> None:
    texts = encodings(*["a warm and funny film", "a dull and empty one, too"] * (SENTENCES // 2))
    rows = pack(texts)
    assert len(rows.token_ids) > 1
    integers = [
        one for one in in_eight_bits(texts, *small).products(lambda: None).elements() if type(one) is IntegerProduct
    ]
    with Products() as noted:
        work = inference("minilm", texts)
        work.compute(work.prepare())
    floats = [one for one in noted.found.elements() if len(one.one) == 2]
    # A graph takes as many texts of each row as the fullest has, and the head has a classifier.
    places = len(rows.token_ids) * int(rows.sequence_ids.max())
    more = 2 * (places - len(texts)) * 384 * 384 + 2 * places * 384 * 2
    assert sum(one.operations for one in integers) == more + sum(one.operations for one in floats)
    assert all(one.seconds(rounds=1) > 0 for one in set(integers))
