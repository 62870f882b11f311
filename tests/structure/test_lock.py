"""``requirements/lock.txt`` installs with every Python that the project supports, first releases included."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet


def test_every_locked_package_takes_the_oldest_release_of_each_python(root: Path) -> None:
    # Debian 12 has Python 3.11.2: a package that asks for 3.11.5 stops `make` there before anything is installed.
    refused = []
    for line in (root / "requirements" / "lock.txt").read_text(encoding="utf-8").splitlines():
        name, _, version = line.partition("==")
        if not version or importlib.metadata.version(name).partition("+")[0] != version:
            continue
        needs = importlib.metadata.metadata(name).get("Requires-Python") or ""
        refused += [
            f"{line} ({needs})" for python in ("3.11.0", "3.12.0", "3.13.0") if python not in SpecifierSet(needs)
        ]
    assert not refused
