"""TensorBoard shows the numbers of the log."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.torch.training.log import tensorboard_curves
from d2lbert.training.log import TrainingLog

COLUMNS = ["step", "loss", "dev_loss"]


def _write(path: Path, step: int, rows: list[dict[str, float]], events: Path) -> None:
    with TrainingLog(path, COLUMNS, step, tensorboard_curves(events, step)) as log:
        for row in rows:
            log.write(row)


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
        tensorboard_curves(tmp_path / "tensorboard", 0)
    assert not list(tmp_path.iterdir())
