"""ELMo equals AllenNLP's known answers, and its parts equal torch.nn and plain loops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from random_parameters import randomize

from d2lbert.config import ElmoConfig
from d2lbert.text.characters import WordCharacters
from d2lbert.torch.elmo import CharacterCnn, Elmo, Highway, ProjectedLstm, ScalarMix

SMALL = ElmoConfig(
    char_embedding_size=5,
    filters=((1, 3), (2, 4), (3, 6)),
    max_characters=9,
    projection_size=7,
    hidden_size=11,
    cell_clip=0.0,
    projection_clip=0.0,
)


@pytest.fixture(scope="module")
def fixture(real_data: Path) -> Path:
    return real_data / "elmo_fixture"


@pytest.fixture(scope="module")
def published(fixture: Path) -> Elmo:
    return Elmo.from_files(fixture / "options.json", fixture / "lm_weights.hdf5")


def padded() -> torch.Tensor:
    """A mask of rows with 6, 1 and 4 words."""
    return torch.arange(6) < torch.tensor([[6], [1], [4]])


@torch.inference_mode()
def test_the_top_layer_has_the_known_values(fixture: Path, published: Elmo) -> None:
    """Three sentences of unequal length at a time, each batch going on where the one before ended."""
    h5py = pytest.importorskip("h5py")
    lists = json.loads((fixture / "sentences.json").read_text())
    characters, state, checked = WordCharacters(published.config.max_characters), None, 0
    files = [h5py.File(fixture / f"lm_embeddings_{number}.hdf5") for number in range(3)]
    for step in range(10):
        sentences = [sentences[step].split() for sentences in lists]
        ids, mask = (torch.from_numpy(array) for array in characters.batch(sentences))
        output = published(ids, mask, state)
        state = output.state
        for row, (words, file) in enumerate(zip(sentences, files, strict=True)):
            top = output.layers[-1][row, 1 : len(words) + 1]  # (words, 2 D)
            expected = np.concatenate(list(file[str(step)][:]), axis=-1)  # forward beside backward
            assert np.abs(top.numpy() - expected).max() < 1e-5
            checked += 1
    assert checked == 30


@torch.inference_mode()
def test_the_words_have_the_known_vectors(fixture: Path, published: Elmo) -> None:
    h5py = pytest.importorskip("h5py")
    words = (fixture / "vocab_test.txt").read_text().splitlines()
    expected = h5py.File(fixture / "elmo_token_embeddings.hdf5")["embedding"][:]
    assert {"<S>", "</S>"} <= set(words)
    characters = WordCharacters(published.config.max_characters)
    ids = torch.from_numpy(np.stack([characters.word(word) for word in words]))
    assert np.abs(published.words(ids[None])[0].numpy() - expected).max() < 1e-5


def test_the_state_of_a_batch_matters(fixture: Path, published: Elmo) -> None:
    """Without the state that is carried on, the second known answer is missed: the test above does test it."""
    h5py = pytest.importorskip("h5py")
    words = json.loads((fixture / "sentences.json").read_text())[0][1].split()
    top = published.embed([words])[0][-1]
    expected = np.concatenate(list(h5py.File(fixture / "lm_embeddings_0.hdf5")["1"][:]), axis=-1)
    assert np.abs(top - expected).max() > 1e-3


def test_an_lstm_without_limits_equals_torch() -> None:
    ours = ProjectedLstm(5, 11, 7, cell_clip=0.0, projection_clip=0.0)
    randomize(ours, seed=1)
    reference = torch.nn.LSTM(5, 11, proj_size=7, batch_first=True)
    with torch.no_grad():
        reference.weight_ih_l0.copy_(ours.input.weight)
        reference.bias_ih_l0.copy_(ours.input.bias)
        reference.bias_hh_l0.zero_()
        reference.weight_hh_l0.copy_(ours.recurrent.weight)
        reference.weight_hr_l0.copy_(ours.projection.weight)
    x, mask = torch.randn(3, 6, 5, generator=torch.Generator().manual_seed(2)), padded()
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    state = torch.full((3, 7), 0.3), torch.full((3, 11), -0.2)
    expected, (hidden, cell) = reference(packed, (state[0][None], state[1][None]))
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(expected, batch_first=True)
    outputs, last = ours(x, mask, state)
    assert (outputs - expected).abs().max() < 1e-5
    assert (last[0] - hidden[0]).abs().max() < 1e-5
    assert (last[1] - cell[0]).abs().max() < 1e-5
    expected.square().sum().backward()
    outputs.square().sum().backward()
    assert (ours.recurrent.weight.grad - reference.weight_hh_l0.grad).abs().max() < 1e-5
    assert (ours.input.weight.grad - reference.weight_ih_l0.grad).abs().max() < 1e-5


def test_cell_and_projection_are_limited() -> None:
    lstm = ProjectedLstm(4, 6, 3, cell_clip=0.5, projection_clip=0.25)
    for parameter in lstm.parameters():  # all gates open: the cell would grow by nearly one a step
        torch.nn.init.ones_(parameter)
    outputs, (hidden, cell) = lstm(10 * torch.ones(3, 6, 4), padded())
    assert outputs.abs().max() == 0.25
    assert hidden.abs().max() == 0.25
    assert cell.abs().max() == 0.5


def test_the_character_network_equals_a_loop() -> None:
    network = CharacterCnn(SMALL)
    randomize(network, seed=5)
    words = ["a", "Zürich", "incomprehensible", "a"]
    ids = torch.from_numpy(np.stack([WordCharacters(9).word(word) for word in words]))
    table = network.characters.weight
    for row, found in zip(ids, network(ids[None])[0], strict=True):
        answers = []
        for convolution in network.convolutions:
            width = convolution.kernel_size[0]
            for weight, bias in zip(convolution.weight, convolution.bias, strict=True):
                spans = [table[row[begin : begin + width]] for begin in range(9 - width + 1)]  # (width, size) each
                answers.append(torch.relu(torch.stack([(weight.T * span).sum() + bias for span in spans]).max()))
        x = torch.stack(answers)
        for highway in network.highways:
            gate = torch.sigmoid(highway.gate.weight @ x + highway.gate.bias)
            x = gate * torch.relu(highway.transform.weight @ x + highway.transform.bias) + (1 - gate) * x
        expected = network.projection.weight @ x + network.projection.bias
        assert (found - expected).abs().max() < 1e-5


def test_a_highway_may_let_everything_pass() -> None:
    highway = Highway(3)
    torch.nn.init.constant_(highway.gate.bias, -100.0)
    torch.nn.init.zeros_(highway.gate.weight)
    x = torch.tensor([[1.0, -2.0, 3.0]])
    assert torch.allclose(highway(x), x)


def test_a_row_does_not_depend_on_the_others() -> None:
    model = Elmo(SMALL).eval()
    randomize(model, seed=6)
    sentences = [["the", "bank", "of", "the", "river"], ["yes"], ["money", "in", "the", "bank"]]
    together = model.embed(sentences)
    for sentence, found in zip(sentences, together, strict=True):
        assert found.shape == (3, len(sentence), 14)
        assert np.abs(model.embed([sentence])[0] - found).max() < 1e-5


def test_a_direction_sees_its_own_side_alone() -> None:
    model = Elmo(SMALL).eval()
    randomize(model, seed=7)
    one, two = (model.embed([["we", "saw", "the", last]])[0] for last in ("river", "money"))
    size = SMALL.projection_size
    assert np.abs(one[1:, :3, :size] - two[1:, :3, :size]).max() < 1e-6  # forward: the last word is not seen before it
    assert np.abs(one[1:, :3, size:] - two[1:, :3, size:]).max() > 1e-4  # backward: it is
    assert np.abs(one[0, :3] - two[0, :3]).max() < 1e-6  # the lowest layer knows no context


def test_the_mix_is_a_weighted_mean() -> None:
    mix = ScalarMix(3)
    layers = [torch.full((1, 2, 4), value) for value in (1.0, 2.0, 6.0)]
    assert torch.allclose(mix(layers), torch.full((1, 2, 4), 3.0))
    with torch.no_grad():
        mix.scores.copy_(torch.tensor([0.0, -100.0, 0.0]))
        mix.gamma.fill_(2.0)
    assert torch.allclose(mix(layers), torch.full((1, 2, 4), 7.0))
