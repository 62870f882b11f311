"""ELMo's MXNet edition equals the PyTorch edition: layers, states, gradients, files, and AllenNLP's known answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from edition_support import assert_same, mxnet_run, same_random_parameters, torch_run

from d2lbert.config import ElmoConfig
from d2lbert.mxnet import elmo
from d2lbert.text.characters import WordCharacters
from d2lbert.torch import elmo as torch_elmo

SMALL = ElmoConfig(
    char_embedding_size=5,
    filters=((1, 3), (2, 4), (3, 6)),
    max_characters=9,
    projection_size=7,
    hidden_size=11,
    cell_clip=0.3,
    projection_clip=0.2,
    activation="tanh",
)
SENTENCES = [["the", "bank", "of", "the", "river"], ["yes"], ["Zürich", "is", "incomprehensible"]]


def both() -> tuple[torch_elmo.Elmo, elmo.Elmo]:
    one, two = torch_elmo.Elmo(SMALL).eval(), elmo.Elmo(SMALL)
    same_random_parameters(one, two)
    return one, two


def test_layers_states_and_gradients() -> None:
    one, two = both()
    ids, mask = WordCharacters(9).batch(SENTENCES)
    tensors = torch.from_numpy(ids), torch.from_numpy(mask)
    begin = [np.full((3, size), 0.1, np.float32) for _ in range(4) for size in (7, 11)]

    def call_torch(*state: torch.Tensor) -> list[torch.Tensor]:
        found = one(*tensors, list(zip(state[::2], state[1::2], strict=True)))
        return [*found.layers, *(part for pair in found.state for part in pair)]

    def call_mxnet(*state: object) -> list[object]:
        found = two(ids, mask, list(zip(state[::2], state[1::2], strict=True)))
        return [*found.layers, *(part for pair in found.state for part in pair)]

    expected = torch_run(one, call_torch, begin)
    # Row 0 of the table, "no word", has no gradient in PyTorch; here its words are masked, so it has none either.
    assert_same(expected, mxnet_run(two, call_mxnet, begin))


def test_sentences_without_a_state() -> None:
    one, two = both()
    for expected, found in zip(one.embed(SENTENCES), two.embed(SENTENCES), strict=True):
        assert np.abs(expected - found).max() < 1e-5


def test_the_mix() -> None:
    one, two = torch_elmo.ScalarMix(3), elmo.ScalarMix(3)
    layers = [np.random.default_rng(seed).standard_normal((2, 4, 5)).astype(np.float32) for seed in range(3)]
    scores = np.array([0.3, -1.0, 0.8], np.float32)
    one.scores.data = torch.from_numpy(scores)
    two.scores.set_data(scores)
    expected = torch_run(one, lambda *x: [one(x)], layers)[0]
    assert np.abs(expected[0] - mxnet_run(two, lambda *x: [two(x)], layers)[0][0]).max() < 1e-6


def test_a_folder_of_the_other_edition(tmp_path: Path) -> None:
    one, _ = both()
    one.save_pretrained(tmp_path)
    found = elmo.Elmo.from_pretrained(tmp_path).embed(SENTENCES)
    assert np.abs(found[0] - one.embed(SENTENCES)[0]).max() < 1e-5


@pytest.mark.parametrize("half", [False, True])
def test_both_write_the_same_folder(tmp_path: Path, half: bool) -> None:
    one, two = both()
    for edition, model in (("torch", one), ("mxnet", two)):
        model.save_pretrained(tmp_path / edition, half=half)
    for name in ("options.json", "model.safetensors"):
        first, second = ((tmp_path / edition / name).read_bytes() for edition in ("torch", "mxnet"))
        assert first == second, name


def test_the_known_answers(real_data: Path) -> None:
    h5py = pytest.importorskip("h5py")
    folder = real_data / "elmo_fixture"
    model = elmo.Elmo.from_files(folder / "options.json", folder / "lm_weights.hdf5")
    lists = json.loads((folder / "sentences.json").read_text())
    characters, state = WordCharacters(model.config.max_characters), None
    for step in range(10):
        sentences = [sentences[step].split() for sentences in lists]
        output = model(*characters.batch(sentences), state)
        state = output.state
        for row, words in enumerate(sentences):
            top = output.layers[-1].asnumpy()[row, 1 : len(words) + 1]
            expected = h5py.File(folder / f"lm_embeddings_{row}.hdf5")[str(step)][:]
            assert np.abs(top - np.concatenate(list(expected), axis=-1)).max() < 1e-5
