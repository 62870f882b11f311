"""What a step needs and runs is counted as PyTorch counts it; its time is told apart without a rest."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.cost.roofline import PREPARED, REST, Work, finetuning, inference, lengths_of, measure
from benchmarks.operations import Products, encoder_operations, parts_of, rate_of
from d2lbert import get_model
from d2lbert.config import BertConfig
from d2lbert.data.batching import pack, pad
from d2lbert.torch.bert import BertModel
from d2lbert.torch.runtime import to_tensors

SIZES = BertConfig(vocab_size=30522, hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64)


def encodings(*texts: str) -> list[object]:
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


@pytest.mark.parametrize("kind", ["inference", "fine-tuning"])
def test_a_kind_of_step_is_measured(kind: str) -> None:
    texts = encodings("a warm and funny film", "dull", "no")
    work: Work = inference("minilm", texts) if kind == "inference" else finetuning(texts)
    found = measure(work, turns=2)
    assert sum(found["parts"].values()) == pytest.approx(1)
    assert {PREPARED, REST, "matrix products"} <= set(found["parts"])
    assert found["needed_operations"] <= found["executed_operations"]
    assert found["tokens"] == sum(len(one.ids) for one in texts)
    assert 0 < found["real_share_of_rows"] <= 1
