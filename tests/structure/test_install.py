"""What is said about installing agrees: extras, the index of PyTorch without CUDA, lower bounds, the package's page."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from lowest import constraints

import d2lbert
from d2lbert.models import get_model


@pytest.fixture(scope="module")
def project(root: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return table


def test_the_readme_names_every_extra(root: Path, project: dict[str, Any]) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    listed = re.search(r"`d2lbert\[NAME\]` brings (.+?)\n\n", text, flags=re.DOTALL)
    assert listed
    named = set(re.findall(r"`(\w+)`", listed[1].split(". `text`")[0]))
    assert named == set(project["optional-dependencies"])


@pytest.mark.parametrize("name", ["README.md", "binder/postBuild", "environment.yml"])
def test_pytorch_without_cuda_comes_from_one_place(root: Path, name: str) -> None:
    index = re.search(r"TORCH_INDEX=(\S+/cpu)", (root / "docker" / "sagemaker" / "Dockerfile").read_text())
    assert index
    assert f"index-url {index[1]}" in (root / name).read_text(encoding="utf-8")


def test_the_page_of_the_package_has_links_and_classifiers(project: dict[str, Any]) -> None:
    assert {"Homepage", "Source", "Issues", "Changelog"} <= set(project["urls"])
    versions = {line.rpartition(" :: ")[2] for line in project["classifiers"] if "Python :: 3." in line}
    assert versions == {"3.11", "3.12", "3.13"}


def test_lowest_versions_are_the_lower_bounds(project: dict[str, Any]) -> None:
    requirements = {"": project["dependencies"], **project["optional-dependencies"]}
    lines = constraints(requirements, torch="2.13.0")
    assert "torch==2.13.0" in lines
    for requirement in project["dependencies"]:
        name, _, bound = requirement.partition(">=")
        assert name == "torch" or f"{name}=={bound}" in lines
    assert "transformers==4.45" in lines
    assert not [line for line in lines if line.startswith(("pytest", "jupyter", "ruff"))]
    assert constraints({"": ["a>=1.5,<2", "b", "c<3"], "dev": ["d>=9"]}) == ["a==1.5"]


def test_the_mxnet_edition_is_tried_on_every_promised_python(root: Path, project: dict[str, Any]) -> None:
    """``make mxnet``, and the container, which has one of them."""
    promised = [line.rpartition(" :: ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    tried = re.search(r"PYTHONS:-([\d. ]+)}", (root / "tools" / "mxnet.sh").read_text())
    assert tried
    assert tried[1].split() == promised
    base = re.search(r"BASE=python:(\d\.\d+)", (root / "docker" / "mxnet" / "Dockerfile").read_text())
    assert base
    assert base[1] in promised


def test_a_python_that_is_missing_is_told_before_anything_is_installed(root: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONS": "9.9", "FOLDER": str(tmp_path / "made")}
    run = subprocess.run(["bash", "tools/mxnet.sh"], cwd=root, env=environment, capture_output=True, text=True)
    told = 'there is no Python 9.9 here: install it, or choose others with PYTHONS="3.11 3.12"'
    assert (run.returncode, run.stderr.splitlines()) == (2, [told])
    assert not (tmp_path / "made").exists()


def test_the_door_of_the_package_has_the_signature_of_the_function() -> None:
    """A checker of types sees the arguments of get_model, not ``*args``."""
    shown, real = (inspect.signature(function, eval_str=False) for function in (d2lbert.get_model, get_model))
    assert shown == real
