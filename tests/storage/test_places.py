"""Where things lie: in the checkout or the installed package, in the cache that one chooses, in another package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.storage import places
from d2lbert.storage.places import cache_folder, folder_named_by, home, package_folder


def test_the_checkout_holds_the_data(root: Path) -> None:
    assert home() == root / "data"
    assert (home() / "manifest.toml").is_file()


def test_an_installed_package_brings_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "d2lbert"
    (package / "data" / "_bundled").mkdir(parents=True)
    monkeypatch.setattr(places, "__file__", str(package / "storage" / "places.py"))
    assert home() == package / "data" / "_bundled"


def test_the_cache_is_chosen_or_the_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("D2LBERT_CACHE", "~/mine")
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.setenv("D2LBERT_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "system"))
    assert cache_folder().name == "d2lbert"


def test_a_variable_names_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("D2LBERT_DATA", "~/mine")
    assert folder_named_by("D2LBERT_DATA") == tmp_path / "mine"
    monkeypatch.setenv("D2LBERT_DATA", "~nosuchuser/x")
    with pytest.raises(UserError, match=r"D2LBERT_DATA is '~nosuchuser/x', but nobody here has that home"):
        folder_named_by("D2LBERT_DATA")
    for name in ("D2LBERT_DATA", "D2LBERT_CACHE"):
        monkeypatch.setenv(name, "")
        assert folder_named_by(name) is None
        monkeypatch.delenv(name)
        assert folder_named_by(name) is None


def test_a_package_is_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weights_of_a_model").mkdir()
    (tmp_path / "weights_of_a_model" / "__init__.py").write_text("raise SystemExit")
    (tmp_path / "no_package.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert package_folder("weights_of_a_model") == tmp_path / "weights_of_a_model"
    assert "weights_of_a_model" not in sys.modules
    assert package_folder("no_package") is None
    assert package_folder("not_installed_anywhere") is None


def test_a_package_is_found_without_importing_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "some_weights").mkdir()
    (tmp_path / "some_weights" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "one_file.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert package_folder("some_weights") == tmp_path / "some_weights"
    assert package_folder("one_file") is None  # it has no folder
    assert package_folder("no_such_weights") is None
