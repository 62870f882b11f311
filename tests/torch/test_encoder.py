"""The encoder's pieces by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from d2lbert.config.base import BlockSizes
from d2lbert.torch.encoder import (
    FeedForward,
    SinusoidalPositions,
    TransformerEncoder,
    count_parameters,
    initialize,
)


def test_sinusoids_follow_the_formula() -> None:
    table = SinusoidalPositions(hidden_size=6, max_length=50).table
    for position in (0, 1, 7, 49):
        for pair in range(3):
            angle = position / 10000 ** (2 * pair / 6)
            assert table[position, 2 * pair].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * pair + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)


def test_sinusoids_of_odd_size_and_too_long_input() -> None:
    positions = SinusoidalPositions(hidden_size=5, max_length=4)
    assert positions(torch.zeros(1, 4, 5)).shape == (1, 4, 5)
    with pytest.raises(ValueError, match="length 5 is longer than the table of 4"):
        positions(torch.zeros(1, 5, 5))


def test_feed_forward_is_two_convolutions_of_width_one() -> None:
    torch.manual_seed(0)
    network = FeedForward(6, 10)
    expand, project = nn.Conv1d(6, 10, 1), nn.Conv1d(10, 6, 1)
    for convolution, linear in ((expand, network.expand), (project, network.project)):
        convolution.load_state_dict({"weight": linear.weight.unsqueeze(-1), "bias": linear.bias})
    x = torch.randn(2, 5, 6)
    convolved = project(expand(x.transpose(1, 2)).relu()).transpose(1, 2)
    assert torch.allclose(network(x), convolved, atol=1e-6)


@pytest.mark.parametrize("gradients", [True, False])
def test_gelu_is_exact_with_gradients_and_without(gradients: bool) -> None:
    """x Phi(x), with the error function; the formula with tanh differs by up to 5e-4."""
    network = FeedForward(1, 1, "gelu")
    for parameter in network.parameters():
        nn.init.zeros_(parameter) if parameter.dim() == 1 else nn.init.ones_(parameter)
    x = torch.linspace(-4, 4, 81).view(1, -1, 1)
    with torch.set_grad_enabled(gradients):
        found = network(x).flatten().tolist()
    expected = [value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x.flatten().tolist()]
    assert found == pytest.approx(expected, abs=1e-6)


def test_encoder_without_positions_is_permutation_equivariant() -> None:
    torch.manual_seed(0)
    encoder = TransformerEncoder(BlockSizes(12, 3, 20), 2).eval()
    x, order = torch.randn(1, 7, 12), torch.randperm(7)
    assert torch.allclose(encoder(x).sequence[:, order], encoder(x[:, order]).sequence, atol=1e-5)


def test_outputs_on_request() -> None:
    encoder = TransformerEncoder(BlockSizes(12, 4, 20), 3).eval()
    x = torch.randn(2, 5, 12)
    plain = encoder(x)
    assert plain.hidden_states is None
    assert plain.attentions is None
    full = encoder(x, output_hidden_states=True, output_attentions=True)
    assert len(full.hidden_states) == 4
    assert torch.equal(full.hidden_states[0], x)
    assert torch.equal(full.hidden_states[-1], full.sequence)
    assert [weights.shape for weights in full.attentions] == [(2, 4, 5, 5)] * 3
    assert torch.allclose(full.attentions[0].sum(-1), torch.ones(2, 4, 5))


def test_initialisation() -> None:
    torch.manual_seed(0)
    encoder = TransformerEncoder(BlockSizes(64, 4, 256), 2)
    encoder.apply(lambda module: initialize(module, 0.02))
    assert encoder.blocks[0].feed_forward.expand.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert encoder.blocks[0].attention.query.bias.abs().max() == 0


def test_parameters_of_a_block_by_formula() -> None:
    size, inner = 12, 20
    encoder = TransformerEncoder(BlockSizes(size, 3, inner), 1)
    attention, feed_forward, norms = 4 * (size * size + size), 2 * size * inner + inner + size, 4 * size
    assert count_parameters(encoder) == attention + feed_forward + norms
