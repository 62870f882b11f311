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
    Record("bert/wic", ["numpy"], seeds=[3]).write({"accuracy": 0.5}, note="a trial")
    content = json.loads((tmp_path / "results" / "bert" / "wic.json").read_text())
    assert content["command"] == "python -m benchmarks.bert.wic --model mine --seed 3"  # no path of this machine
    assert {"date", "commit", "device", "versions", "seconds", "peak_memory_gib", "taken_by", "quiet"} < set(content)
    assert (content["seeds"], content["note"], content["metrics"]) == ([3], "a trial", {"accuracy": 0.5})


def samples_of(names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record.data, "is_sample", names.__contains__)


def test_samples_never_replace_what_real_data_gave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "ROOT", tmp_path)
    stored, beside = (tmp_path / folder / "bert" / "wic.json" for folder in ("results", "runs/on_samples"))
    samples_of({"wic"}, monkeypatch)
    Record("bert/wic", [], data_sets=["wic", "sst2"]).write({"accuracy": 0.5})  # nothing is there yet
    assert json.loads(stored.read_text())["data_sets"] == {"wic": "sample", "sst2": "full"}
    samples_of(set(), monkeypatch)
    Record("bert/wic", [], data_sets=["wic"]).write({"accuracy": 0.6})  # real data replace samples
    real = stored.read_bytes()
    assert json.loads(real)["data_sets"] == {"wic": "full"}
    assert "samples" not in capsys.readouterr().out
    samples_of({"wic"}, monkeypatch)
    Record("bert/wic", [], data_sets=["wic", "sst2"]).write({"accuracy": 0.9})
    assert stored.read_bytes() == real
    assert json.loads(beside.read_text())["metrics"] == {"accuracy": 0.9}
    said = capsys.readouterr().out
    assert said.startswith("of wic only samples are here: the result goes to runs/on_samples/bert/wic.json\n")


def test_results_from_before_data_sets_were_noted_count_as_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "ROOT", tmp_path)
    samples_of({"wic"}, monkeypatch)
    (tmp_path / "results" / "bert").mkdir(parents=True)
    (tmp_path / "results" / "bert" / "wic.json").write_text('{"metrics": {}}')
    assert Record("bert/wic", [], data_sets=["wic"]).path == tmp_path / "runs" / "on_samples" / "bert" / "wic.json"
    assert Record("bert/wic", [], path=tmp_path / "x.json", data_sets=["wic"]).path == tmp_path / "x.json"


def test_a_part_of_the_data_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(record, "ROOT", tmp_path)
    Record("bert/wic", []).write({"accuracy": 0.6})
    Record("bert/wic", [], size=8).write({"accuracy": 0.9})
    whole, part = (tmp_path / folder / "bert" / "wic.json" for folder in ("results", "runs/on_parts"))
    assert [json.loads(path.read_text())["metrics"]["accuracy"] for path in (whole, part)] == [0.6, 0.9]
    assert "only 8 examples are read: the result goes to runs/on_parts/bert/wic.json\n" in capsys.readouterr().out


def test_what_needs_the_real_data_says_so_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    samples_of({"wikipedia_en"}, monkeypatch)
    with pytest.raises(
        SystemExit, match=r"^samples are too small for this: set D2LBERT_DATA to a folder with wikipedia_en$"
    ):
        Record("pretraining/step", [], data_sets=["wikipedia_en", "sst2"], samples_do=False)
    Record("pretraining/step", [], data_sets=["sst2"], samples_do=False)


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
