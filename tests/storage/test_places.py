"""Where things lie: in the checkout or in the installed package, and the cache that an environment chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert.storage import places
from d2lbert.storage.places import cache_folder, home


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
