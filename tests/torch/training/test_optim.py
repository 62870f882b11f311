"""Groups of parameters, schedules at their corners, one step of descent and BERT's first AdamW, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from d2lbert.config import BertConfig
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.torch.training.optim import (
    UncorrectedAdamW,
    decay_groups,
    descend,
    layer_groups,
    scale_rates,
)


def _classifier() -> BertForSequenceClassification:
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    return BertForSequenceClassification(BertModel(BertConfig(vocab_size=13, **sizes)), ["negative", "positive"])


def test_decay_spares_biases_and_layer_norm() -> None:
    model = _classifier()
    decayed, spared = decay_groups(model, 0.01)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    assert len(decayed["params"]) + len(spared["params"]) == len(names)
    assert all(names[id(p)].endswith("bias") or "norm" in names[id(p)] for p in spared["params"])
    assert not any(names[id(p)].endswith("bias") or "norm" in names[id(p)] for p in decayed["params"])
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.01, 0.0)


def test_what_is_frozen_is_in_no_group() -> None:
    model = _classifier()
    model.bert.requires_grad_(False)
    for groups in (decay_groups(model, 0.01), layer_groups(model, 0.01, 1.0, 0.5)):
        found = [parameter for group in groups for parameter in group["params"]]
        assert {id(parameter) for parameter in found} == {id(one) for one in model.classifier.parameters()}
    assert [group["lr"] for group in layer_groups(model, 0.01, 1.0, 0.5)] == [1.0, 1.0]


def test_layer_decay_by_hand() -> None:
    model = _classifier()
    groups = layer_groups(model, 0.01, 1.0, 0.5)
    rates = {id(parameter): (group["lr"], group["weight_decay"]) for group in groups for parameter in group["params"]}
    assert len(rates) == len(list(model.parameters()))
    names = dict(model.named_parameters())
    assert rates[id(names["classifier.weight"])] == rates[id(names["bert.pooler.weight"])] == (1.0, 0.01)
    assert rates[id(names["bert.encoder.blocks.1.attention.query.weight"])] == (0.5, 0.01)
    assert rates[id(names["bert.encoder.blocks.0.attention.query.bias"])] == (0.25, 0.0)
    assert rates[id(names["bert.embeddings.word.weight"])] == (0.125, 0.01)
    assert rates[id(names["bert.embeddings.norm.bias"])] == (0.125, 0.0)
    assert {group["lr"] for group in layer_groups(model, 0.01, 0.3, 1.0)} == {0.3}
    assert all(group["params"] for group in groups)


def test_rates_are_scaled_from_where_they_began() -> None:
    first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([{"params": [first], "lr": 1.0}, {"params": [second], "lr": 0.5}])
    for factor, expected in ((0.5, [0.5, 0.25]), (2.0, [2.0, 1.0]), (0.0, [0.0, 0.0]), (1.0, [1.0, 0.5])):
        scale_rates(optimizer, factor)
        assert [group["lr"] for group in optimizer.param_groups] == expected


class _Point(nn.Module):
    """Weights (3, 4): the gradient of half their square is (3, 4), too, and 5 long."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([3.0, 4.0]))

    def forward(self) -> torch.Tensor:
        return self.weight.square().sum() / 2


@pytest.mark.parametrize(("clip", "expected"), [(1.0, [2.7, 3.6]), (5.5, [1.5, 2.0]), (1e9, [1.5, 2.0])])
def test_one_step_of_descent(clip: float, expected: list[float]) -> None:
    """A gradient that is longer than ``clip`` keeps its direction; a shorter one is left alone."""
    model = _Point()
    model.weight.grad = torch.tensor([100.0, -100.0])  # of an earlier step: it counts no longer
    loss = descend(model(), model, torch.optim.SGD(model.parameters(), lr=0.5), clip)
    assert model.weight.tolist() == pytest.approx(expected, rel=1e-5)
    assert float(loss) == 12.5  # before the step
    assert not loss.requires_grad


def test_adam_without_bias_correction_by_hand() -> None:
    weight, rate, decay, epsilon = torch.nn.Parameter(torch.tensor([2.0, -1.0])), 0.1, 0.5, 1e-6
    optimizer = UncorrectedAdamW([weight], lr=rate, weight_decay=decay, eps=epsilon)
    expected, first, second = np.array([2.0, -1.0]), np.zeros(2), np.zeros(2)
    for gradient in (np.array([3.0, -0.2]), np.array([-1.0, 0.0])):
        weight.grad = torch.tensor(gradient, dtype=torch.float32)
        optimizer.step()
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        expected = expected - rate * (first / (np.sqrt(second) + epsilon) + decay * expected)
        assert weight.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_uncorrected_steps_are_the_corrected_ones_at_a_higher_rate() -> None:
    """The factor of the docstring: 6.6 at most, more than 3 for the first hundred steps."""
    steps = np.arange(1, 101)
    factors = (1 - 0.9**steps) / np.sqrt(1 - 0.999**steps)
    assert factors.max() == pytest.approx(6.57, abs=0.01)
    assert factors[-1] > 3
    plain, corrected = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizers = (
        UncorrectedAdamW([plain], lr=0.01, weight_decay=0.0, eps=1e-12),
        torch.optim.AdamW([corrected], lr=0.01, weight_decay=0.0, eps=1e-12),
    )
    generator = torch.Generator().manual_seed(0)
    for factor in factors[:20]:
        before = plain.detach().clone(), corrected.detach().clone()
        gradient = torch.randn(3, generator=generator)
        for parameter, optimizer in zip((plain, corrected), optimizers, strict=True):
            parameter.grad = gradient.clone()
            optimizer.step()
        assert torch.allclose(plain - before[0], float(factor) * (corrected - before[1]), rtol=1e-4)


def test_uncorrected_adam_knows_closures_groups_and_parameters_without_a_gradient() -> None:
    model, still = _Point(), nn.Parameter(torch.ones(1))
    groups = [{"params": model.parameters(), "weight_decay": 0.0}, {"params": [still], "lr": 5.0}]
    optimizer = UncorrectedAdamW(groups, lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model()
        loss.backward()
        return loss

    assert float(optimizer.step(closure).detach()) == 12.5
    first_step = 0.1 * 0.1 / 0.001**0.5  # rate (1 - b1) g / sqrt((1 - b2) g^2)
    assert model.weight.tolist() == pytest.approx([3 - first_step, 4 - first_step], rel=1e-4)
    assert still.tolist() == [1.0]
    assert optimizer.step() is None
