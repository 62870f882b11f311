"""ELMo's files, its input and its training task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_parameters import randomize

from d2lbert import UserError
from d2lbert.config import ElmoConfig
from d2lbert.text.characters import WordCharacters
from d2lbert.torch.elmo import BidirectionalLanguageModel, Elmo, ProjectedLstm, reverse, sampled_softmax_loss

h5py = pytest.importorskip("h5py")
SMALL = ElmoConfig(char_embedding_size=2, filters=((1, 3), (2, 4)), max_characters=9, projection_size=5, hidden_size=6)


def write_files(folder: Path, config: ElmoConfig = SMALL, leave_out: str = "") -> tuple[Path, Path]:
    """Write options and weights in AllenNLP's layout, filled with ones."""
    filters, size = config.num_filters, config.projection_size
    arrays = {"char_embed": (config.num_characters - 1, config.char_embedding_size)}
    for number, (width, count) in enumerate(config.filters):
        arrays[f"CNN/W_cnn_{number}"] = (1, width, config.char_embedding_size, count)
        arrays[f"CNN/b_cnn_{number}"] = (count,)
    for number in range(config.num_highway_layers):
        for kind in ("carry", "transform"):
            arrays[f"CNN_high_{number}/W_{kind}"] = (filters, filters)
            arrays[f"CNN_high_{number}/b_{kind}"] = (filters,)
    arrays |= {"CNN_proj/W_proj": (filters, size), "CNN_proj/b_proj": (size,)}
    for direction in range(2):
        for layer in range(config.num_layers):
            prefix = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            arrays[f"{prefix}/W_0"] = (2 * size, 4 * config.hidden_size)
            arrays[f"{prefix}/B"] = (4 * config.hidden_size,)
            arrays[f"{prefix}/W_P_0"] = (config.hidden_size, size)
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, shape in arrays.items():
            if name != leave_out:
                file[name] = np.ones(shape)
    (folder / "options.json").write_text(json.dumps(SMALL.to_options()))
    return folder / "options.json", folder / "weights.hdf5"


def test_options_and_weights_are_read(tmp_path: Path) -> None:
    model = Elmo.from_files(*write_files(tmp_path))
    assert model.config == SMALL
    assert not model.training
    bias = model.backward_layers[1].input.bias.detach().numpy()
    assert bias.tolist() == [1] * 6 + [2] * 6 + [1] * 12  # TensorFlow's forget gate adds one
    assert model.words.characters.weight[0].abs().sum() == 0  # no word, no vector


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("no options", r"cannot read .*options\.json"),
        ("no weights", r"there is no file .*weights\.hdf5"),
        ("cut off", r"is not a whole HDF5 file"),
        (
            "other sizes",
            r"has shape .* but the configuration asks for",
        ),
        ("array left out", r"lacks the array .*CNN_proj/b_proj.*: weights and options are not of one model"),
        ("wrong options", r"holds no ELMo options .*: give the options\.json"),
        ("unknown activation", r"options\.json: .*activation 'swish'"),
    ],
)
def test_files_that_do_not_fit_are_one_line(tmp_path: Path, change: str, message: str) -> None:
    config = SMALL.replace(projection_size=4) if change == "other sizes" else SMALL
    options, weights = write_files(tmp_path, config, "CNN_proj/b_proj" if change == "array left out" else "")
    if change == "no options":
        options.unlink()
    elif change == "no weights":
        weights.unlink()
    elif change == "cut off":
        weights.write_bytes(weights.read_bytes()[:3000])
    elif change == "wrong options":
        options.write_text('{"lstm": {}}')
    elif change == "unknown activation":
        options.write_text(options.read_text().replace("relu", "swish"))
    with pytest.raises(UserError, match=message) as caught:
        Elmo.from_files(options, weights)
    assert "\n" not in str(caught.value)


def test_filters_wider_than_a_word_are_refused() -> None:
    with pytest.raises(UserError, match="the widest filter spans 5 characters"):
        SMALL.replace(filters=((5, 2),), max_characters=4)


def test_a_word_is_its_bytes_between_markers() -> None:
    characters = WordCharacters(6)
    assert characters.word("ab").tolist() == [259, 98, 99, 260, 261, 261]
    assert characters.word("é").tolist() == [259, 0xC3 + 1, 0xA9 + 1, 260, 261, 261]
    assert characters.word("abcdefg").tolist() == [259, 98, 99, 100, 101, 260]  # cut off
    assert characters.word("<S>").tolist() == [259, 257, 260, 261, 261, 261]


def test_a_batch_has_markers_and_a_mask() -> None:
    characters = WordCharacters(6)
    ids, mask = characters.batch([["a", "b"], []])
    assert ids.shape == (2, 4, 6)
    assert mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert ids[1, 1].tolist() == characters.word("</S>").tolist()
    assert ids[1, 2:].sum() == 0
    with pytest.raises(UserError, match="no sentence"):
        characters.batch([])


SENTENCES = [["the", "river", "bank"], ["money"]]
WORD_IDS = torch.tensor([[0, 2, 3, 4, 1], [0, 5, 1, 6, 6]])  # <S> 0, </S> 1, padding 6


def language_model(**settings: Any) -> BidirectionalLanguageModel:
    model = BidirectionalLanguageModel(Elmo(SMALL), 7, dropout=0.0, **settings)
    randomize(model, seed=4, standard_deviation=0.5)
    return model


def batch(sentences: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = WordCharacters(SMALL.max_characters).batch(sentences)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def test_each_direction_guesses_its_next_word() -> None:
    model = language_model()
    ids, mask = batch(SENTENCES)
    forward, backward = model(ids, mask, WORD_IDS)
    top = model.elmo(ids, mask).layers[-1]
    ahead, back = top.chunk(2, dim=-1)
    guesses = [(row, place) for row, length in enumerate([5, 3]) for place in range(length - 1)]
    assert len(forward) == len(backward) == len(guesses) == 6
    for found, (row, place) in zip(forward, guesses, strict=True):
        expected = -model.output(ahead[row, place]).log_softmax(0)[WORD_IDS[row, place + 1]]
        assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    for found, (row, place) in zip(backward, guesses, strict=True):
        expected = -model.output(back[row, place + 1]).log_softmax(0)[WORD_IDS[row, place]]
        assert found.item() == pytest.approx(expected.item(), abs=1e-5)


def test_no_direction_sees_the_word_that_it_guesses() -> None:
    model = language_model()
    one = model(*batch([["the", "river", "bank"]]), WORD_IDS[:1])
    two = model(*batch([["the", "river", "money"]]), WORD_IDS[:1])  # same targets, the last word written otherwise
    assert torch.allclose(one[0][:3], two[0][:3], atol=1e-6)  # forward guesses the, river and the last word alike
    assert not torch.allclose(one[0][3], two[0][3], atol=1e-5)  # and the end with the last word known
    assert torch.allclose(one[1][3], two[1][3], atol=1e-6)  # backward guesses the last word from the end marker alone
    assert not torch.allclose(one[1][2], two[1][2], atol=1e-5)


def test_the_sampled_softmax_comes_near_the_full_one() -> None:
    generator = torch.Generator().manual_seed(5)
    states, targets = torch.randn(40, 5, generator=generator), torch.randint(6, (40,), generator=generator)
    output = torch.nn.Linear(5, 6)
    randomize(output, seed=6, standard_deviation=0.7)
    noise = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.07, 0.03])
    full = torch.nn.functional.cross_entropy(output(states), targets, reduction="none")
    torch.manual_seed(7)
    sampled = sampled_softmax_loss(states, targets, output, noise, 40_000)
    assert (sampled - full).abs().max() < 0.1
    uncorrected = sampled_softmax_loss(states, targets, output, torch.full((6,), 1 / 6), 3)
    assert (uncorrected - full).abs().max() > 0.1  # a few samples are only an estimate


def test_samples_are_for_training_alone() -> None:
    ids, mask = batch(SENTENCES)
    full, sampled = language_model(), language_model(samples=2)
    assert torch.equal(full.eval()(ids, mask, WORD_IDS)[0], sampled.eval()(ids, mask, WORD_IDS)[0])
    assert not torch.equal(full.train()(ids, mask, WORD_IDS)[0], sampled.train()(ids, mask, WORD_IDS)[0])


def test_a_folder_comes_back_as_it_was(tmp_path: Path) -> None:
    model = Elmo(SMALL)
    randomize(model, seed=8)
    model.save_pretrained(tmp_path / "full")
    model.save_pretrained(tmp_path / "half", half=True)
    for name, value in Elmo.from_pretrained(tmp_path / "full").state_dict().items():
        assert torch.equal(value, model.state_dict()[name])
    for name, value in Elmo.from_pretrained(tmp_path / "half").state_dict().items():
        assert (value - model.state_dict()[name]).abs().max() < 1e-3
    sizes = [(tmp_path / kind / "model.safetensors").stat().st_size for kind in ("full", "half")]
    assert sizes[1] < 0.7 * sizes[0]
    (tmp_path / "full" / "options.json").write_text(json.dumps(SMALL.replace(hidden_size=8).to_options()))
    with pytest.raises(UserError, match="are not of one model"):
        Elmo.from_pretrained(tmp_path / "full")


def test_words_are_reversed_and_padding_stays() -> None:
    x = torch.arange(8).view(2, 4, 1)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    assert reverse(x, mask).squeeze(-1).tolist() == [[3, 2, 1, 0], [5, 4, 6, 7]]


def test_forget_gates_begin_open() -> None:
    lstm = ProjectedLstm(input_size=3, hidden_size=4, projection_size=2, cell_clip=0, projection_clip=0)
    assert lstm.input.bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8  # gates i, f, g, o
