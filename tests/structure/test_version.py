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


def test_the_front_page_says_how_to_cite_this_version(root: Path) -> None:
    cite = (root / "index.md").read_text(encoding="utf-8").split("## How to cite")[1]
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    assert f"Version {d2lbert.__version__}." in cite
    for field in ("title", "repository-code"):
        said = re.findall(rf'^{field}: "?(.+?)"?$', citation, re.MULTILINE)
        assert said
        assert said[0] in cite
