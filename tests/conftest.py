"""What every test shares."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; a test that asks for it is skipped, saying so, where there is none."""
    folder = os.environ.get("D2LBERT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: set D2LBERT_DATA to a folder laid out as <dataset>/<file>")
    return Path(folder)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data but the samples, and no network."""
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path))
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
