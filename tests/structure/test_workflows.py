"""The workflows: every step is a target or a script that also runs here, on the promised versions of Python."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2] / ".github"
WORKFLOWS = sorted((FOLDER / "workflows").glob("*.yml"))


def read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return table


def commands(workflow: dict[str, Any]) -> list[str]:
    """Return the commands of all steps, with each value of a matrix."""
    found = []
    for job in workflow["jobs"].values():
        values = [one["which"] for one in job.get("strategy", {}).get("matrix", {}).get("include", [])] or [""]
        for step in job.get("steps", []):
            found += {step["run"].replace("${{ matrix.which }}", value) for value in values if "run" in step}
    return found


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_step_runs_here_too(path: Path, root: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", (root / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for command in commands(read(path)):
        program, name, *_ = command.split()
        assert (program == "make" and name in targets) or (program == "bash" and (root / name).is_file()), command


def test_the_promised_versions_of_python_are_tested(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = [line.rpartition(" :: ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    assert read(FOLDER / "workflows" / "tests.yml")["jobs"]["quick"]["strategy"]["matrix"]["python"] == promised


def test_no_workflow_may_write_more_than_it_must() -> None:
    allowed = {"site": {"contents": "read", "pages": "write", "id-token": "write"}}
    for path in WORKFLOWS:
        assert read(path)["permissions"] == allowed.get(path.stem, {"contents": "read"}), path.stem
    assert read(FOLDER / "workflows" / "release.yml")["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_forms_and_dependabot_can_be_read() -> None:
    for path in (FOLDER / "ISSUE_TEMPLATE").glob("*.yml"):
        form = read(path)
        assert {"name", "description", "body"} <= set(form)
        assert all({"type", "attributes"} <= set(field) for field in form["body"])
    assert {one["package-ecosystem"] for one in read(FOLDER / "dependabot.yml")["updates"]} == {"pip", "github-actions"}


@pytest.mark.parametrize(("tag", "status"), [("v9.9.9", 0), ("v9.9.8", 1)])
def test_a_tag_must_be_the_version_of_the_archives(tag: str, status: int, root: Path, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "dist").mkdir()
    (tmp_path / "tools" / "check_tag.sh").write_bytes((root / "tools" / "check_tag.sh").read_bytes())
    for name in ("d2lbert-9.9.9-py3-none-any.whl", "d2lbert-9.9.9.tar.gz"):
        (tmp_path / "dist" / name).touch()
    ended = subprocess.run(["bash", "tools/check_tag.sh", tag], cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
