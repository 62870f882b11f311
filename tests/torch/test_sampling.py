"""Sampling: the cut distribution by hand, its statistics, its seed, and every model that can step."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from d2lbert import UserError
from d2lbert.config import TransformerConfig
from d2lbert.torch.generation import Sampling, greedy_search, next_token_distribution, sample
from d2lbert.torch.transformer import Transformer

PROBABILITIES = torch.tensor([[0.1, 0.4, 0.2, 0.3]])
SCORES = PROBABILITIES.log() + 7  # a constant changes nothing


def _kept(**settings: Any) -> Tensor:
    return next_token_distribution(SCORES, Sampling(**settings))[0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"temperature": 0.0}, [0, 1, 0, 0]),
        ({"temperature": 0.5}, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 9}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0.3}, [0, 1, 0, 0]),
        ({"top_p": 0.6}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 1e-9}, [0, 1, 0, 0]),
        # After top-k the two that stay have 4/7 and 3/7: half is reached by the first alone.
        ({"top_k": 2, "top_p": 0.5}, [0, 1, 0, 0]),
        # At temperature 1/2 the best two have 25/30.
        ({"temperature": 0.5, "top_p": 0.8}, [0, 16 / 25, 0, 9 / 25]),
    ],
)
def test_distribution_by_hand(settings: dict[str, float], expected: list[float]) -> None:
    assert torch.allclose(_kept(**settings), torch.tensor(expected, dtype=torch.float32), atol=1e-6)


def test_equals_the_filters_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    scores = torch.randn(5, 60, generator=torch.Generator().manual_seed(3)) * 2
    warpers = transformers.LogitsProcessorList(
        [
            transformers.TemperatureLogitsWarper(0.7),
            transformers.TopKLogitsWarper(20),
            transformers.TopPLogitsWarper(0.8),
        ]
    )
    expected = warpers(torch.zeros(5, 1, dtype=torch.long), scores).softmax(dim=-1)
    found = next_token_distribution(scores, Sampling(temperature=0.7, top_k=20, top_p=0.8))
    assert torch.allclose(found, expected, atol=1e-6)
    assert 1 < int((found > 0).sum(dim=-1).min()) < 20


@pytest.mark.parametrize(
    "wrong", [{"temperature": -1.0}, {"temperature": math.inf}, {"top_k": -1}, {"top_p": 0.0}, {"top_p": 1.1}]
)
def test_settings_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"sampling: {next(iter(wrong))} is"):
        Sampling(**wrong)  # type: ignore[arg-type]


class _Constant:
    """A model that gives the same probabilities at every step."""

    config = type("Config", (), {"eos_token_id": 0})

    def start(self, source_ids: Tensor, source_mask: Tensor | None = None) -> Any:
        return type("State", (), {"last": source_ids[:, 0]})

    def step(self, token_ids: Tensor, state: Any) -> Tensor:
        return SCORES.expand(len(token_ids), -1)


def test_draws_have_the_shares_of_the_distribution() -> None:
    found = sample(_Constant(), torch.zeros(4000, 1, dtype=torch.long), max_length=1, sampling=Sampling(seed=4))
    drawn = torch.tensor([hypothesis.ids[0] if hypothesis.ids else 0 for hypothesis in found])
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    # Four standard errors of a share of 0.4 are 0.031.
    assert (shares - PROBABILITIES[0]).abs().max() < 0.031
    ended = [hypothesis for hypothesis in found if hypothesis.ended]
    assert len(ended) == int((drawn == 0).sum())
    assert ended[0].score == pytest.approx(math.log(0.1), abs=1e-5)


def _transformer() -> tuple[Transformer, Tensor]:
    torch.manual_seed(0)
    config = TransformerConfig(
        source_vocab_size=30,
        target_vocab_size=30,
        hidden_size=16,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=20,
    )
    return Transformer(config).eval(), torch.randint(3, 30, (3, 5))


def test_a_translator_can_be_sampled_and_a_seed_repeats() -> None:
    model, sources = _transformer()
    runs = [
        [hypothesis.ids for hypothesis in sample(model, sources, max_length=8, sampling=Sampling(seed=seed))]
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_temperature_zero_is_greedy_search() -> None:
    model, sources = _transformer()
    drawn = sample(model, sources, max_length=8, sampling=Sampling(temperature=0.0))
    assert [h.ids for h in drawn] == [h.ids for h in greedy_search(model, sources, max_length=8)]
