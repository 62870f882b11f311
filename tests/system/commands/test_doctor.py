"""``d2lbert doctor``: all is well here; what is wrong is a line that says what to do, and status 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import run

from d2lbert.commands import doctor
from d2lbert.commands.doctor import compare
from d2lbert.torch.training import reproduction
from d2lbert.torch.training.reproduction import NUMBERS


def test_all_is_well_here() -> None:
    result = run("doctor")
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[-1] == "all is well"
    assert all(line.startswith("ok  ") for line in lines[:-1])
    for name in NUMBERS:
        assert any(line.startswith(f"ok  {name}: ") and line.endswith(", as stored") for line in lines)
    for word in ("torch ", "device ", "memory ", "data: ", "cache ", "weights here: "):
        assert any(word in line for line in lines), word


def test_another_number_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(reproduction.NUMBERS, "F1 of three answers", (lambda: 0.5, 0.0))
    result = run("doctor")
    assert result.returncode == 1
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("!!")]
    assert line.startswith("!!  F1 of three answers: 0.5, but 0.5555555556 is stored: install the versions of requirem")
    assert result.stdout.splitlines()[-1] == "1 of the lines above say what to do"


def test_a_share_of_the_stored_number_is_allowed() -> None:
    stored = {"value": -2.0, "tolerance": 0.01}
    assert compare("x", -2.019, stored).fine
    assert not compare("x", -2.021, stored).fine
    assert not compare("x", float("nan"), stored).fine
    assert compare("x", 7.0, {"value": 7.0, "tolerance": 0.0}).fine


def test_a_mistake_of_the_user_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_numbers", lambda: iter(()))
    monkeypatch.setenv("D2LBERT_DATA", str(tmp_path / "nowhere"))
    result = run("doctor")
    assert result.returncode == 1
    assert f"!!  D2LBERT_DATA names {tmp_path / 'nowhere'}, which is not a folder; correct or unset it" in result.stdout


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert [one.fine for one in doctor._versions()] == [False]
    assert "pip install 'd2lbert[parquet]'" in " ".join(one.text for one in doctor._optional())


def test_the_stored_numbers_are_those_of_the_functions(root: Path) -> None:
    stored = json.loads((root / "results" / "doctor" / "numbers.json").read_text())["metrics"]
    assert {name: one["tolerance"] for name, one in stored.items()} == {
        name: share for name, (_, share) in NUMBERS.items()
    }
