"""The files of the whole book are attached to a release: all of them, or none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

# Stands in for GitHub's program: it keeps what it is asked for, and knows the release v1.0.0 alone.
GH = """#!/usr/bin/env bash
printf '%s|' "$@" >> "$ASKED"; echo >> "$ASKED"
[ "$2" != view ] || [ "$3" = v1.0.0 ]
"""


@pytest.fixture
def checkout(root: Path, tmp_path: Path) -> Path:
    for folder in ("tools", "bin", "_build/files"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tools" / "attach_files.sh").write_bytes((root / "tools" / "attach_files.sh").read_bytes())
    (tmp_path / "bin" / "gh").write_text(GH)
    (tmp_path / "bin" / "gh").chmod(0o755)
    for form in ("pdf", "epub"):
        (tmp_path / "_build" / "files" / f"d2lbert.{form}").touch()
    return tmp_path


def attach(checkout: Path, tag: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the script; return how it ended and what it asked for."""
    asked = checkout / "asked"
    environment = {**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "ASKED": str(asked)}
    command = ["bash", "tools/attach_files.sh", tag]
    ended = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    return ended, asked.read_text().splitlines() if asked.is_file() else []


@pytest.mark.parametrize(("tag", "steps"), [("v1.0.0", ["view", "upload"]), ("v1.1.0", ["view", "create", "upload"])])
def test_both_files_are_attached(checkout: Path, tag: str, steps: list[str]) -> None:
    ended, asked = attach(checkout, tag)
    assert ended.returncode == 0, ended.stderr
    assert [line.split("|")[:3] for line in asked] == [["release", step, tag] for step in steps]
    assert all(f"|_build/files/d2lbert.{form}#" in asked[-1] for form in ("pdf", "epub"))


def test_nothing_is_released_where_a_file_is_missing(checkout: Path) -> None:
    (checkout / "_build" / "files" / "d2lbert.epub").unlink()
    ended, asked = attach(checkout, "v1.1.0")
    assert ended.returncode == 1
    assert "d2lbert.epub is not there: make epub first" in ended.stderr
    assert asked == []


def test_the_job_that_attaches_them_may_write_a_release_and_nothing_else(root: Path) -> None:
    workflow = yaml.safe_load((root / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["book"]
    assert job["permissions"] == {"contents": "write"}
    assert [step["run"] for step in job["steps"] if "run" in step][-1].startswith("bash tools/attach_files.sh ")
