"""The version is written in ``d2lbert/__init__.py``; what else must hold it agrees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import d2lbert


def test_the_build_reads_the_version_from_the_package(root: Path) -> None:
    described = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in described["project"]
    assert "version" in described["project"]["dynamic"]
    assert described["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "d2lbert.__version__"}


def test_the_citation_has_the_version_of_the_package(root: Path) -> None:
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [d2lbert.__version__]
