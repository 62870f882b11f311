"""The image for SageMaker: what its file says, and, where buildah is installed, the image itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sagemaker_support import CSV, container, write_job


@pytest.fixture(scope="module")
def lines(root: Path) -> list[str]:
    """The instructions of the Dockerfile, each in one line."""
    text = (root / "docker" / "sagemaker" / "Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_entry_point_is_a_list(lines: list[str]) -> None:
    """A line would start a shell, and the shell would keep SIGTERM for itself."""
    (entry,) = [line.removeprefix("ENTRYPOINT ") for line in lines if line.startswith("ENTRYPOINT")]
    assert json.loads(entry)[0] == "python"
    assert not [line for line in lines if line.startswith("CMD")]


def test_nothing_lies_where_sagemaker_mounts(lines: list[str]) -> None:
    assert not [line for line in lines if "/opt/ml" in line]


def test_the_image_says_that_it_takes_many_models(lines: list[str]) -> None:
    assert "LABEL com.amazonaws.sagemaker.capabilities.multi-models=true" in lines


def test_versions_are_those_of_the_lock(lines: list[str]) -> None:
    installs = [part for line in lines if line.startswith("RUN") for part in line.split("&&") if "pip install" in part]
    assert installs
    assert all("-c /build/requirements/lock.txt" in part or "--no-deps -r" in part for part in installs)


def test_what_is_copied_is_there_and_let_in(lines: list[str], root: Path) -> None:
    let_in = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]}
    assert copied == let_in
    assert all((root / name).exists() for name in copied)


@pytest.mark.parametrize(("words", "told"), [([], "nothing was asked for"), (["bash"], "bash was asked for")])
def test_another_word_is_told(words: list[str], told: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "d2lbert.deploy.sagemaker", *words]
    run = subprocess.run(command, capture_output=True, text=True, env=container(tmp_path), timeout=120)
    assert run.returncode == 2
    assert run.stderr == f"d2lbert: {told}: give train or serve\n"


@pytest.mark.slow
def test_the_image_trains(lines: list[str], root: Path, tmp_path: Path) -> None:
    """Built with the base that ``D2LBERT_IMAGE_BASE`` names, such as one that debootstrap made."""
    if shutil.which("buildah") is None or not os.environ.get("D2LBERT_IMAGE_BASE"):
        pytest.skip("needs buildah, and D2LBERT_IMAGE_BASE=<an image with Python 3.11 and pip>")
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}

    def buildah(*words: str) -> str:
        run = subprocess.run(["buildah", *words], capture_output=True, text=True, env=environment, cwd=root)
        assert run.returncode == 0, run.stderr
        return run.stdout.strip()

    base = f"BASE={os.environ['D2LBERT_IMAGE_BASE']}"
    buildah("build", "-f", "docker/sagemaker/Dockerfile", "--build-arg", base, "-t", "d2lbert-sagemaker", ".")
    hyperparameters = {"task": "classification", "model": "d2lbert-tiny", "epochs": "1"}
    job = write_job(tmp_path, hyperparameters, {"train": {"rows.csv": CSV}})
    made = buildah("from", "d2lbert-sagemaker")
    try:
        (entry,) = [json.loads(line.removeprefix("ENTRYPOINT ")) for line in lines if line.startswith("ENTRYPOINT")]
        buildah("run", "-v", f"{job}:/opt/ml", made, "--", *entry, "train")
    finally:
        buildah("rm", made)
    assert (job / "model" / "config.json").is_file()
