"""What benchmarks keep of their runs: done once, and never taken for a run with other settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record
from benchmarks.record import Record, kept


def test_a_result_says_how_to_repeat_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "ROOT", tmp_path)
    script, model = tmp_path / "benchmarks" / "bert" / "wic.py", tmp_path / "models" / "mine"
    monkeypatch.setattr("sys.argv", [str(script), "--model", str(model), "--seed", "3"])
    (tmp_path / "results" / "bert").mkdir(parents=True)
    Record("bert/wic", ["numpy"], seeds=[3]).write({"accuracy": 0.5}, data="a sample")
    content = json.loads((tmp_path / "results" / "bert" / "wic.json").read_text())
    assert content["command"] == "python -m benchmarks.bert.wic --model mine --seed 3"  # no path of this machine
    assert {"date", "commit", "device", "versions", "seconds", "peak_memory_gib"} < set(content)
    assert (content["seeds"], content["data"], content["metrics"]) == ([3], "a sample", {"accuracy": 0.5})


def test_the_work_is_done_once(tmp_path: Path) -> None:
    done = []

    def work() -> dict[str, Any]:
        done.append(1)
        return {"score": 0.5, "history": (1, 2)}

    settings = {"rates": (0.1, 0.2), "sizes": {1: "one"}}
    found = [kept(tmp_path / "new" / "run.json", settings, work) for _ in range(2)]
    assert found == [{"score": 0.5, "history": [1, 2]}] * 2
    assert len(done) == 1


def test_other_settings_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    kept(path, {"steps": 10, "seed": 0}, lambda: 1)
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"run\.json was kept with another steps: remove it"):
        kept(path, {"steps": 20, "seed": 0}, lambda: 2)
    assert path.read_bytes() == before


def test_a_run_that_fails_keeps_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        kept(tmp_path / "run.json", {}, lambda: 1 / 0)
    assert not list(tmp_path.iterdir())
