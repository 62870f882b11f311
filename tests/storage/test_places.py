"""Folders of installed packages are found without an import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from d2lbert.storage.places import package_folder


def test_a_package_is_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights_of_a_model").mkdir()
    (tmp_path / "weights_of_a_model" / "__init__.py").write_text("raise SystemExit")
    (tmp_path / "no_package.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert package_folder("weights_of_a_model") == tmp_path / "weights_of_a_model"
    assert "weights_of_a_model" not in sys.modules
    assert package_folder("no_package") is None
    assert package_folder("not_installed_anywhere") is None
