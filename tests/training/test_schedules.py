"""Learning rates, step by step and layer by layer, by hand."""

from __future__ import annotations

import pytest

from d2lbert.training.schedules import inverse_square_root_decay, layer_factors, linear_warmup_and_decay


def test_schedule_by_hand() -> None:
    factors = [linear_warmup_and_decay(step, 2, 6) for step in range(7)]
    assert factors == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0])
    assert linear_warmup_and_decay(0, 0, 4) == 1.0
    assert [linear_warmup_and_decay(step, 4, 4) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 0.0]  # warm-up alone
    assert linear_warmup_and_decay(9, 2, 6) == 0.0  # never below
    assert linear_warmup_and_decay(0, 0, 0) == 0.0


def test_schedule_is_the_formula_of_the_paper() -> None:
    warmup, size = 4000, 512
    peak = size**-0.5 * warmup**-0.5
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        paper = size**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert peak * inverse_square_root_decay(step - 1, warmup) == pytest.approx(paper)
    factors = [inverse_square_root_decay(step, 4) for step in (0, 1, 3, 15)]
    assert factors == pytest.approx([1 / 4, 2 / 4, 1, 1 / 2])


def test_layers_by_hand() -> None:
    blocks = [f"bert.encoder.blocks.{number}.attention.query.bias" for number in range(11)]
    factors = layer_factors(["bert.embeddings.norm.weight", *blocks, "bert.pooler.weight", "classifier.bias"], 0.5)
    assert [factors[name] for name in blocks] == [0.5 ** (11 - number) for number in range(11)]
    assert factors["bert.embeddings.norm.weight"] == 0.5**12
    assert factors["bert.pooler.weight"] == factors["classifier.bias"] == 1.0


def test_a_frozen_encoder_leaves_the_head_its_rate() -> None:
    assert layer_factors(["classifier.weight"], 0.5) == {"classifier.weight": 1.0}
    assert (
        layer_factors(["bert.embeddings.word.weight", "classifier.weight"], 0.5)["bert.embeddings.word.weight"] == 0.5
    )
    assert set(layer_factors(["embeddings.word.weight", "encoder.blocks.0.norm.bias"], 1.0).values()) == {1.0}
