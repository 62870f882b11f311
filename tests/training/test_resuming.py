"""Checkpoints with settings: written together, read by the same run alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.storage.checkpoints import DamagedCheckpointWarning
from d2lbert.training.resuming import newest_checkpoint, write_checkpoint

SETTINGS = {"epochs": 3, "labels": ["no", "yes"]}


def _write(folder: Path, step: int, keep: int = 2) -> None:
    def write(target: Path) -> None:
        (target / "state").write_text(str(step))

    write_checkpoint(folder, step, SETTINGS, write, keep)


def test_the_newest_comes_with_its_settings_beside_it(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        _write(tmp_path, step)
    with newest_checkpoint(tmp_path, SETTINGS) as path:
        assert path == tmp_path / "checkpoint-00000003"
        assert (path / "state").read_text() == "3"
        assert json.loads((path / "settings.json").read_text()) == SETTINGS
    assert len(list(tmp_path.iterdir())) == 2
    _write(tmp_path, 4, keep=1)
    assert [folder.name for folder in tmp_path.iterdir()] == ["checkpoint-00000004"]


def test_where_there_is_none_there_is_none(tmp_path: Path) -> None:
    with newest_checkpoint(tmp_path / "none", SETTINGS) as path:
        assert path is None


def test_a_damaged_one_is_passed_over(tmp_path: Path) -> None:
    for step in (1, 2):
        _write(tmp_path, step)
    (tmp_path / "checkpoint-00000002" / "settings.json").write_text("{}")
    with pytest.warns(DamagedCheckpointWarning), newest_checkpoint(tmp_path, SETTINGS) as path:
        assert path == tmp_path / "checkpoint-00000001"


def test_another_run_reads_nothing(tmp_path: Path) -> None:
    _write(tmp_path, 1)
    other = {**SETTINGS, "epochs": 4}
    with pytest.raises(UserError, match="epochs was 3 and is now 4; give"), newest_checkpoint(tmp_path, other):
        pytest.fail("it was read")


def test_a_state_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    _write(tmp_path, 1)
    with (
        pytest.raises(UserError, match="does not hold the state of this run"),
        newest_checkpoint(tmp_path, SETTINGS) as path,
    ):
        raise KeyError(f"weights in {path}")


def test_a_state_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    def fail(target: Path) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left on device; free space"):
        write_checkpoint(tmp_path, 1, SETTINGS, fail, 2)
    assert list(tmp_path.iterdir()) == []
