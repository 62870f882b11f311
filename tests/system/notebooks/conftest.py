"""A small book."""

from __future__ import annotations

from pathlib import Path

import pytest
from book_support import write_book


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A checkout with two chapters that were run."""
    return write_book(tmp_path / "book")
