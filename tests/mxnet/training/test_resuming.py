"""Checkpoints of the MXNet edition: there and back, of another run, damaged, made up; and names of weights."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from d2lbert import UserError
from d2lbert.storage.checkpoints import DamagedCheckpointWarning

pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)

from mxnet import gluon, nd

from d2lbert.mxnet.training.resuming import fingerprint_of_weights, load_checkpoint, save_checkpoint

SETTINGS = {"epochs": 3, "labels": ["a", "b"]}
ARRAYS = {"model.weight": np.float32([[1.5, np.nan], [-0.0, 3e-45]]), "mean.bias": np.float32([])}
COUNTERS = {"step": 7, "history": [{"loss": 0.1 + 0.2}], "order": json.dumps({"state": 2**127 + 1})}


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 7, SETTINGS, ARRAYS, COUNTERS)
    with load_checkpoint(tmp_path, SETTINGS) as saved:
        assert saved is not None
        arrays, counters = saved
    assert counters == COUNTERS
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in ARRAYS.items()
    }


def test_the_newest_comes_and_few_stay(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, SETTINGS, ARRAYS, {"step": step})
    assert len(list(tmp_path.iterdir())) == 2
    with load_checkpoint(tmp_path, SETTINGS) as saved:
        assert saved is not None
        assert saved[1] == {"step": 3}


def test_where_there_is_none_there_is_nothing(tmp_path: Path) -> None:
    with load_checkpoint(tmp_path / "none", SETTINGS) as saved:
        assert saved is None


def test_another_run_is_refused(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 7, SETTINGS, ARRAYS, COUNTERS)
    with (
        pytest.raises(UserError, match="is of another run: epochs was 3 and is now 4"),
        load_checkpoint(tmp_path, {**SETTINGS, "epochs": 4}),
    ):
        pytest.fail("it was loaded")


@pytest.mark.parametrize("file", ["state.safetensors", "state.json", "settings.json"])
def test_a_damaged_state_is_passed_over(file: str, tmp_path: Path) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, SETTINGS, ARRAYS, {"step": step})
    path = tmp_path / "checkpoint-00000002" / file
    path.write_bytes(path.read_bytes()[:-3])
    with warnings.catch_warnings(record=True) as caught, load_checkpoint(tmp_path, SETTINGS) as saved:
        assert saved is not None
        assert saved[1] == {"step": 1}
    assert [one.category for one in caught] == [DamagedCheckpointWarning]


@pytest.mark.parametrize("content", [b"", b"\x80\x04", b"\xff" * 40])
def test_a_state_that_was_made_up_is_one_line(content: bytes, tmp_path: Path) -> None:
    """Its digests fit: somebody wrote the manifest, too."""
    from d2lbert.storage import checkpoints

    def write(folder: Path) -> None:
        (folder / "state.safetensors").write_bytes(content)
        (folder / "state.json").write_text("{}")
        (folder / "settings.json").write_text(json.dumps(SETTINGS))

    checkpoints.save(tmp_path, 1, write, 2)
    with pytest.raises(UserError, match="does not hold the state of this run"), load_checkpoint(tmp_path, SETTINGS):
        pytest.fail("it was loaded")


def _dense(units: int = 2, inputs: int = 3, value: float = 0.0) -> Any:
    layer = gluon.nn.Dense(units, in_units=inputs)
    layer.initialize()
    layer.weight.set_data(nd.full((units, inputs), value))
    return layer


def test_other_weights_have_another_name() -> None:
    changed = _dense()
    changed.weight.set_data(nd.array([[0, 0, 0], [0, 0, 1e-30]]))
    names = [fingerprint_of_weights(layer) for layer in (_dense(), changed, _dense(3, 2), _dense(value=1.0))]
    assert len(set(names)) == 4
    assert fingerprint_of_weights(_dense()) == names[0]
