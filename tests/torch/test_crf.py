"""The CRF equals brute force over all sequences of labels."""

from __future__ import annotations

import itertools

import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.torch.crf import LinearChainCrf

LENGTHS = [5, 1, 3]


@pytest.fixture
def crf() -> LinearChainCrf:
    model = LinearChainCrf(3)
    randomize(model, seed=1, standard_deviation=1.0)
    return model


@pytest.fixture
def emissions() -> torch.Tensor:
    return torch.randn(3, 5, 3, generator=torch.Generator().manual_seed(2))


MASK = torch.arange(5) < torch.tensor(LENGTHS)[:, None]


def score(crf: LinearChainCrf, emissions: torch.Tensor, labels: tuple[int, ...]) -> torch.Tensor:
    """The definition, for one sentence."""
    total = crf.start[labels[0]] + crf.end[labels[-1]]
    total = total + sum(emissions[position, label] for position, label in enumerate(labels))
    return total + sum(crf.transitions[pair] for pair in itertools.pairwise(labels))


def test_the_loss_equals_brute_force(crf: LinearChainCrf, emissions: torch.Tensor) -> None:
    labels = torch.tensor([[0, 2, 1, 1, 0], [2, 0, 0, 0, 0], [1, 1, 2, 0, 0]])
    losses = crf(emissions, labels, MASK)
    for row, length in enumerate(LENGTHS):
        scores = [score(crf, emissions[row], y) for y in itertools.product(range(3), repeat=length)]
        correct = score(crf, emissions[row], tuple(labels[row, :length].tolist()))
        assert losses[row].item() == pytest.approx((torch.stack(scores).logsumexp(0) - correct).item(), abs=1e-5)


def test_all_sequences_together_have_probability_one(crf: LinearChainCrf, emissions: torch.Tensor) -> None:
    sequences = torch.tensor(list(itertools.product(range(3), repeat=5)))
    losses = crf(emissions[:1].expand(len(sequences), -1, -1), sequences, torch.ones(len(sequences), 5, dtype=bool))
    assert (-losses).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_decoding_equals_brute_force(crf: LinearChainCrf, emissions: torch.Tensor) -> None:
    decoded = crf.decode(emissions, MASK)
    greedy = 0
    for row, length in enumerate(LENGTHS):
        best = max(itertools.product(range(3), repeat=length), key=lambda y: score(crf, emissions[row], y).item())
        assert tuple(decoded[row]) == best
        greedy += decoded[row] == emissions[row, :length].argmax(1).tolist()
    assert greedy < 3  # else the transitions, and this test, would say nothing


def test_first_and_last_label_have_scores_of_their_own() -> None:
    crf = LinearChainCrf(3)
    with torch.no_grad():
        crf.start[1], crf.end[2] = 1.0, 1.0
    assert crf.decode(torch.tensor([[[0.5, 0, 0]] * 5]), MASK[:1]) == [[1, 0, 0, 0, 2]]


def test_a_gradient_step_makes_the_right_labels_likelier(crf: LinearChainCrf, emissions: torch.Tensor) -> None:
    labels = torch.zeros(3, 5, dtype=torch.long)
    before = crf(emissions, labels, MASK).sum()
    before.backward()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter -= 0.1 * parameter.grad
    assert crf(emissions, labels, MASK).sum() < before


def test_padding_changes_nothing(crf: LinearChainCrf, emissions: torch.Tensor) -> None:
    labels = torch.tensor([[0, 2, 1, 1, 0], [2, 0, 0, 0, 0], [1, 1, 2, 0, 0]])
    changed = torch.where(MASK[..., None], emissions, 100.0)
    assert torch.equal(crf(emissions, labels, MASK), crf(changed, labels * MASK + ~MASK * 2, MASK))
    assert crf.decode(emissions, MASK) == crf.decode(changed, MASK)


def test_bad_input_is_one_line(crf: LinearChainCrf, emissions: torch.Tensor) -> None:
    with pytest.raises(UserError, match="at least 1"):
        LinearChainCrf(0)
    with pytest.raises(UserError, match="without words"):
        crf.decode(emissions, MASK & False)
