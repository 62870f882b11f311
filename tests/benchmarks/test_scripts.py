"""Every script of a benchmark can be started: its ``--help`` says what it does and how it is run."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in ROOT.glob("benchmarks/*/*.py"))


@pytest.mark.parametrize("module", SCRIPTS)
def test_help(module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["script", "--help"])
    monkeypatch.delitem(sys.modules, module, raising=False)  # where another test has imported it: run it anew
    with pytest.raises(SystemExit) as caught:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: ")
    assert f"python -m {module}" in said
