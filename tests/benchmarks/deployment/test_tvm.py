"""The benchmark of TVM: without TVM it ends in one line that says what to install."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from benchmarks.deployment import tvm


def test_without_tvm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without_tvm(name: str, package: str | None = None) -> Any:
        return None if name == "tvm" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_tvm)
    monkeypatch.setattr("sys.argv", ["tvm"])
    with pytest.raises(SystemExit, match=r"^TVM is not installed: pip install"):
        tvm.main()
