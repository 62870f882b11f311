"""The log of a run: what a crash leaves is cleaned up, and TensorBoard shows the same numbers."""

from __future__ import annotations

import builtins
import resource
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.torch.training.log import TrainingLog

COLUMNS = ["step", "loss", "dev_loss"]


def _write(path: Path, step: int, rows: list[dict[str, float]], events: Path | None = None) -> None:
    with TrainingLog(path, COLUMNS, step, events) as log:
        for row in rows:
            log.write(row)


def test_lines_later_than_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    _write(path, 0, [{"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.5, "dev_loss": 2.6}, {"step": 30, "loss": 2.0}])
    with path.open("a") as stream:
        stream.write("40,1.")  # cut short by a crash
    _write(path, 20, [{"step": 30, "loss": 2.1}])
    assert path.read_text() == "step,loss,dev_loss\n10,3.0,\n20,2.5,2.6\n30,2.1,\n"


def test_it_tells_whether_the_line_of_the_step_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    for step, lacks in [(0, False), (0, True), (10, True)]:  # without a file, nothing is said to be lost
        with TrainingLog(path, COLUMNS, step) as log:
            assert log.lacks_step is lacks
    _write(path, 0, [{"step": 10, "loss": 3.0}])
    with TrainingLog(path, COLUMNS, 10) as log:
        assert not log.lacks_step


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"step,loss\xff,dev_loss\n", "is not UTF-8 text: move it elsewhere, or restore it"),
        (b"my,own,notes\n1,2,3\n", "has other columns than the log of this run"),
        (b"", "has other columns"),
        (b"step,loss,dev_loss\n10,3.0,\nx,2.0,\n", "line 3, is no line of a log"),
        (b"step,loss,dev_loss\n10,3.0\n20,2.0,\n", "line 2, is no line of a log"),
    ],
)
def test_what_is_no_log_is_not_overwritten(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        TrainingLog(path, COLUMNS, 20)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_zeros_of_a_power_cut_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"step,loss,dev_loss\n10,3.0,\n20,2" + bytes(100))
    _write(path, 20, [{"step": 30, "loss": 2.0}])
    assert path.read_text() == "step,loss,dev_loss\n10,3.0,\n30,2.0,\n"


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "log.csv"
    with TrainingLog(path, COLUMNS, 0) as log:
        log.write({"step": 10, "loss": 3.0})
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 3, hard))
        try:
            with pytest.raises(UserError, match=r"cannot write .*log.csv: File too large; free space"):
                log.write({"step": 20, "loss": 2.0})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    _write(path, 10, [])
    assert path.read_text() == "step,loss,dev_loss\n10,3.0,\n"


def test_tensorboard_shows_the_numbers_of_the_file(tmp_path: Path) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs tensorboard"
    )
    path, events = tmp_path / "log.csv", tmp_path / "tensorboard"
    _write(path, 0, [{"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.5, "dev_loss": 2.5}], events)
    _write(path, 10, [{"step": 20, "loss": 2.25}, {"step": 30, "loss": 2.0}], events)  # goes on after step 10
    curves = accumulator.EventAccumulator(str(events)).Reload()
    assert [(event.step, event.value) for event in curves.Scalars("loss")] == [(10, 3.0), (20, 2.25), (30, 2.0)]
    assert path.read_text().splitlines()[1:] == ["10,3.0,", "20,2.25,", "30,2.0,"]


def test_without_tensorboard_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "torch.utils.tensorboard":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UserError, match="pip install tensorboard"):
        TrainingLog(tmp_path / "log.csv", COLUMNS, 0, tmp_path / "tensorboard")
    assert not list(tmp_path.iterdir())
