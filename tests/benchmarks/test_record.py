"""What benchmarks keep of their runs: done once, and never taken for a run with other settings."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def kept(root: Path) -> Iterator[Callable[..., Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root / "benchmarks"))
        yield importlib.import_module("record").kept


def test_the_work_is_done_once(kept: Callable[..., Any], tmp_path: Path) -> None:
    done = []

    def work() -> dict[str, Any]:
        done.append(1)
        return {"score": 0.5, "history": (1, 2)}

    settings = {"rates": (0.1, 0.2), "sizes": {1: "one"}}
    found = [kept(tmp_path / "new" / "run.json", settings, work) for _ in range(2)]
    assert found == [{"score": 0.5, "history": [1, 2]}] * 2
    assert len(done) == 1


def test_other_settings_are_refused_and_nothing_is_lost(kept: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    kept(path, {"steps": 10, "seed": 0}, lambda: 1)
    before = path.read_bytes()
    with pytest.raises(SystemExit, match=r"run\.json was kept with another steps: remove it"):
        kept(path, {"steps": 20, "seed": 0}, lambda: 2)
    assert path.read_bytes() == before


def test_a_run_that_fails_keeps_nothing(kept: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        kept(tmp_path / "run.json", {}, lambda: 1 / 0)
    assert not list(tmp_path.iterdir())
