"""ELMo's arrays from AllenNLP's file: transposed, gates put in order; damaged files in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.config import ElmoConfig
from d2lbert.weights.elmo import elmo_parameters, read_elmo

CONFIG = ElmoConfig(
    num_characters=4, char_embedding_size=2, filters=((2, 3),), num_highway_layers=1, max_characters=5,
    projection_size=2, hidden_size=1, num_layers=1,
)  # fmt: skip


def _arrays() -> dict[str, np.ndarray]:
    """AllenNLP's arrays of that network; each number is different. An LSTM has the columns i, candidate, f, o."""
    shapes = {
        "char_embed": (3, 2),
        "CNN/W_cnn_0": (1, 2, 2, 3),
        "CNN/b_cnn_0": (3,),
        "CNN_high_0/W_carry": (3, 3),
        "CNN_high_0/b_carry": (3,),
        "CNN_high_0/W_transform": (3, 3),
        "CNN_high_0/b_transform": (3,),
        "CNN_proj/W_proj": (3, 2),
        "CNN_proj/b_proj": (2,),
    }
    for direction in range(2):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell0/LSTMCell"
        shapes |= {f"{cell}/W_0": (4, 4), f"{cell}/B": (4,), f"{cell}/W_P_0": (1, 2)}
    arrays, first = {}, 1
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        arrays[name] = np.arange(first, first + size, dtype=np.float32).reshape(shape)
        first += size
    return arrays


def _shapes(arrays: dict[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
    lstm = {"input.weight": (4, 2), "input.bias": (4,), "recurrent.weight": (4, 2), "projection.weight": (2, 1)}
    words = {
        "characters.weight": (4, 2),
        "convolutions.0.weight": (3, 2, 2),
        "convolutions.0.bias": (3,),
        **{f"highways.0.{part}.weight": (3, 3) for part in ("gate", "transform")},
        **{f"highways.0.{part}.bias": (3,) for part in ("gate", "transform")},
        "projection.weight": (2, 3),
        "projection.bias": (2,),
    }
    layers = {f"{side}_layers.0.{name}": shape for side in ("forward", "backward") for name, shape in lstm.items()}
    return {**{f"words.{name}": shape for name, shape in words.items()}, **layers}


def test_arrays_by_hand() -> None:
    arrays = _arrays()
    parameters = elmo_parameters(arrays, CONFIG, _shapes(arrays), "here")
    assert parameters.keys() == _shapes(arrays).keys()
    # Row 0 of the characters, "no word", is ours.
    assert parameters["words.characters.weight"].tolist() == [[0, 0], [1, 2], [3, 4], [5, 6]]
    # A filter: (1, width, in, out) there, (out, in, width) here.
    assert parameters["words.convolutions.0.weight"][2, 1, 0] == arrays["CNN/W_cnn_0"][0, 0, 1, 2]
    assert parameters["words.highways.0.gate.weight"][0, 1] == arrays["CNN_high_0/W_carry"][1, 0]
    assert parameters["words.projection.weight"][1, 2] == arrays["CNN_proj/W_proj"][2, 1]
    cell = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell"
    whole = arrays[f"{cell}/W_0"]  # (input + D, gates)
    assert parameters["backward_layers.0.input.weight"].tolist() == whole[:2, [0, 2, 1, 3]].T.tolist()
    assert parameters["backward_layers.0.recurrent.weight"].tolist() == whole[2:, [0, 2, 1, 3]].T.tolist()
    input_gate, candidate, forget_gate, output_gate = arrays[f"{cell}/B"]
    assert parameters["backward_layers.0.input.bias"].tolist() == [input_gate, forget_gate + 1, candidate, output_gate]
    assert parameters["backward_layers.0.projection.weight"].tolist() == arrays[f"{cell}/W_P_0"].T.tolist()


def test_what_does_not_fit_is_one_line() -> None:
    arrays = _arrays()
    shapes = _shapes(arrays)
    with pytest.raises(
        UserError, match=r"here: words\.projection\.bias has shape \(2,\) but the configuration asks for"
    ):
        elmo_parameters(arrays, CONFIG, {**shapes, "words.projection.bias": (3,)}, "here")
    del arrays["char_embed"]
    with pytest.raises(UserError, match=r"^here lacks the array 'char_embed': weights and options are not of one"):
        elmo_parameters(arrays, CONFIG, shapes, "here")


def test_a_file_is_read_with_its_names(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        file["CNN/b_cnn_0"] = np.array([1.0, 2.0])
    (array,) = read_elmo(tmp_path / "weights.hdf5").values()
    assert array.dtype == np.float32
    assert read_elmo(tmp_path / "weights.hdf5")["CNN/b_cnn_0"].tolist() == [1.0, 2.0]


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="h5py is not installed")
    with pytest.raises(UserError, match=r"there is no file .*weights\.hdf5: give the lm_weights\.hdf5"):
        read_elmo(tmp_path / "weights.hdf5")
    (tmp_path / "weights.hdf5").write_bytes(b"no HDF5")
    with pytest.raises(UserError, match=r"weights\.hdf5 is not a whole HDF5 file") as caught:
        read_elmo(tmp_path / "weights.hdf5")
    assert "\n" not in str(caught.value)
