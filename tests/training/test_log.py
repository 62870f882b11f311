"""The log of a run: what a crash leaves is cleaned up, and what is no log stays."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.training.log import TrainingLog

COLUMNS = ["step", "loss", "dev_loss"]


def _write(path: Path, step: int, rows: list[dict[str, float]]) -> None:
    with TrainingLog(path, COLUMNS, step) as log:
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
