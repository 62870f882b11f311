"""A format whose packages are missing is refused before any work."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.deploy.export import export
from d2lbert.deploy.exported import ExportedModel


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, folder: Path, tmp_path: Path) -> None:
    export(str(folder), tmp_path / "graph")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name.startswith("onnx") else find(name))
    with pytest.raises(UserError, match=r"export to ONNX needs onnx: run pip install 'd2lbert\[deploy\]'"):
        export(str(folder), tmp_path / "out")
    with pytest.raises(UserError, match="a graph of ONNX needs onnxruntime: run pip install"):
        ExportedModel.from_folder(tmp_path / "graph")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]
