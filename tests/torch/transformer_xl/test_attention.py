"""Relative attention against its formula."""

from __future__ import annotations

import math

import pytest
import torch

from d2lbert.torch.transformer_xl import RelativeAttention, distance_waves


@torch.no_grad()
def test_every_score_by_its_formula() -> None:
    torch.manual_seed(0)
    attention = RelativeAttention(16, 2)
    torch.nn.init.normal_(attention.content_bias)
    torch.nn.init.normal_(attention.distance_bias)
    seen = torch.randn(2, 5, 16)
    x = seen[:, 3:]  # L = 2 after T = 3
    q, k, v = (
        layer(part).unflatten(-1, (2, 8))
        for layer, part in ((attention.query, x), (attention.key, seen), (attention.value, seen))
    )
    wanted = torch.zeros(2, 2, 2, 8)
    for text in range(2):
        for head in range(2):
            for i in range(2):
                scores = []
                for j in range(5):
                    away = attention.distance(distance_waves(torch.tensor(3 + i - j), 16)).unflatten(-1, (2, 8))[head]
                    by_content = (q[text, i, head] + attention.content_bias[head, 0]) @ k[text, j, head]
                    by_distance = (q[text, i, head] + attention.distance_bias[head, 0]) @ away
                    scores.append((by_content + by_distance) / math.sqrt(8))
                wanted[text, i, head] = torch.stack(scores).softmax(0) @ v[text, :, head]
    assert torch.allclose(attention(x, seen), attention.output(wanted.flatten(2)), atol=1e-5)


def test_waves_of_distances() -> None:
    waves = distance_waves(torch.tensor([0, 1, -1]), 4)
    assert torch.allclose(waves[0], torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert torch.allclose(waves[1], torch.tensor([math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01)]))
    assert torch.allclose(waves[2], waves[1] * torch.tensor([-1, -1, 1, 1]))


@torch.no_grad()
def test_who_sees_nothing_gets_zeros() -> None:
    attention = RelativeAttention(8, 2)
    x = torch.randn(1, 2, 8)
    found = attention(x, x, torch.tensor([[False, False], [True, False]]))
    assert (found[0, 0] == 0).all()
    assert (found[0, 1] != 0).any()


def test_sizes_that_do_not_fit_are_refused() -> None:
    for sizes in ((9, 3), (8, 3)):
        with pytest.raises(ValueError, match="is odd, or"):
            RelativeAttention(*sizes)
