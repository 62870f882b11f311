"""The images, for SageMaker and for MXNet: what their files say, and, where buildah is installed, they themselves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sagemaker_support import CSV, container, wait_for_ping, write_job
from server_support import free_port

IMAGES = ("sagemaker", "mxnet")
each_image = pytest.mark.parametrize("image", IMAGES)


def instructions(root: Path, image: str) -> list[str]:
    """The instructions of a Dockerfile, each in one line."""
    text = (root / "docker" / image / "Dockerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def entry_point(lines: list[str], instruction: str = "ENTRYPOINT") -> list[str]:
    """The words of an instruction that holds a list."""
    (entry,) = [line.removeprefix(f"{instruction} ") for line in lines if line.startswith(instruction)]
    words: list[str] = json.loads(entry)
    return words


@pytest.fixture(scope="module")
def lines(root: Path) -> list[str]:
    """The instructions for SageMaker."""
    return instructions(root, "sagemaker")


def test_every_image_is_tested(root: Path) -> None:
    assert {path.parent.name for path in (root / "docker").glob("*/Dockerfile*")} == set(IMAGES)


def test_the_entry_point_is_a_list(lines: list[str]) -> None:
    """A line would start a shell, and the shell would keep SIGTERM for itself."""
    assert entry_point(lines)[0] == "python"
    assert not [line for line in lines if line.startswith("CMD")]


def test_the_image_can_score_what_it_trains_and_serve(lines: list[str]) -> None:
    """The extra ``eval`` would bring more than the scores of texts and pairs need."""
    (install,) = [line for line in lines if "/build[" in line]
    assert {'"/build[serve]"', "scikit-learn"} <= set(install.split())


def test_the_image_of_mxnet_takes_a_command_of_the_package(root: Path) -> None:
    lines = instructions(root, "mxnet")
    words = [*entry_point(lines), *entry_point(lines, "CMD")]
    assert words[0] == "d2lbert"
    run = subprocess.run([sys.executable, "-m", "d2lbert.cli", *words[1:], "--help"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_image_of_mxnet_has_what_the_edition_needs(root: Path) -> None:
    """Its requirements, and the libraries of the system that its own library asks for and a small Debian lacks."""
    lines = instructions(root, "mxnet")
    assert [line for line in lines if "--no-deps -r /build/requirements/mxnet.txt" in line]
    assert [line for line in lines if '"/build[mxnet,eval]"' in line]
    (system,) = [line for line in lines if "apt-get install" in line]
    assert {"libgomp1", "libquadmath0"} <= set(system.split())
    checks = [line for line in lines if "import d2lbert.mxnet" in line]
    assert [line for line in lines if line.startswith("RUN")][-1:] == checks, "the last step tries what was installed"


def test_the_last_step_of_the_image_of_mxnet_runs(root: Path) -> None:
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    (check,) = [line for line in instructions(root, "mxnet") if "import d2lbert.mxnet" in line]
    words = shlex.split(check.removeprefix("RUN "))
    run = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True)
    assert (words[0], run.returncode) == ("python", 0), run.stderr


def test_nothing_lies_where_sagemaker_mounts(lines: list[str]) -> None:
    assert not [line for line in lines if "/opt/ml" in line]


def test_the_image_says_that_it_takes_many_models(lines: list[str]) -> None:
    assert "LABEL com.amazonaws.sagemaker.capabilities.multi-models=true" in lines


@each_image
def test_versions_are_those_of_the_lock(root: Path, image: str) -> None:
    runs = [line for line in instructions(root, image) if line.startswith("RUN")]
    installs = [part for line in runs for part in line.split("&&") if "pip install" in part]
    assert installs
    assert all("-c /build/requirements/lock.txt" in part or "--no-deps -r" in part for part in installs)


def copied(root: Path, image: str) -> set[str]:
    """The files and folders that an image takes."""
    return {name for line in instructions(root, image) if line.startswith("COPY") for name in line.split()[1:-1]}


def test_what_is_copied_is_there_and_let_in(root: Path) -> None:
    let_in = {line[1:] for line in (root / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert set.union(*(copied(root, image) for image in IMAGES)) == let_in
    assert all((root / name).exists() for name in let_in)


@each_image
def test_what_is_installed_was_copied(root: Path, image: str) -> None:
    lines = instructions(root, image)
    asked = {
        name for line in lines if line.startswith("RUN") for name in re.findall(r"/build/(requirements/\S+)", line)
    }
    assert asked == {name for name in copied(root, image) if name.startswith("requirements/")}


@pytest.mark.parametrize(("words", "told"), [([], "nothing was asked for"), (["bash"], "bash was asked for")])
def test_another_word_is_told(words: list[str], told: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "d2lbert.deploy.sagemaker", *words]
    run = subprocess.run(command, capture_output=True, text=True, env=container(tmp_path), timeout=120)
    assert run.returncode == 2
    assert run.stderr == f"d2lbert: {told}: give train or serve\n"


SERVING = ("python", "-m", "d2lbert.deploy.sagemaker", "serve")
BUILDAH = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}


def buildah(root: Path, *words: str) -> str:
    """Run buildah, which builds and runs images without an engine."""
    environment = {**os.environ, **BUILDAH}
    run = subprocess.run(["buildah", *words], capture_output=True, text=True, env=environment, cwd=root)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def build(root: Path, image: str) -> str:
    """Build an image with the base that ``D2LBERT_IMAGE_BASE`` names, such as one that debootstrap made."""
    if shutil.which("buildah") is None or not os.environ.get("D2LBERT_IMAGE_BASE"):
        pytest.skip("needs buildah, and D2LBERT_IMAGE_BASE=<an image with Python 3.11 and pip>")
    base = f"BASE={os.environ['D2LBERT_IMAGE_BASE']}"
    buildah(root, "build", "-f", f"docker/{image}/Dockerfile", "--build-arg", base, "-t", f"d2lbert-{image}", ".")
    return buildah(root, "from", f"d2lbert-{image}")


@contextlib.contextmanager
def started(made: str, command: list[str], job: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a container that listens at a port; afterwards nothing of it is left."""
    words = ["buildah", "run", "-v", f"{job}:/opt/ml", "-e", f"SAGEMAKER_BIND_TO_PORT={port}", made, "--", *command]
    with (job / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **BUILDAH}, start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def running(*words: str) -> list[int]:
    """Return the numbers of the processes that were started with these words, wherever the program lies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            program, *rest = path.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            found += [int(path.parent.name)] if (Path(program).name, *rest) == words else []
    return found


@pytest.mark.slow
def test_the_image_trains_and_serves_what_it_trained(lines: list[str], root: Path, tmp_path: Path) -> None:
    made = build(root, "sagemaker")
    hyperparameters = {"task": "classification", "model": "d2lbert-tiny", "epochs": "1"}
    job = write_job(tmp_path, hyperparameters, {"train": {"rows.csv": CSV}})
    try:
        buildah(root, "run", "-v", f"{job}:/opt/ml", made, "--", *entry_point(lines), "train")
        assert (job / "model" / "config.json").is_file()
        port, before = free_port(), running(*SERVING)
        with (
            started(made, [*entry_point(lines), "serve"], job, port) as process,
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client,
        ):
            wait_for_ping(client, process, job / "serve.log")
            answer = client.post("/invocations", json={"text": "what a good film"})
            assert answer.status_code == 200, answer.text
            assert answer.json()["label"] in ("good", "bad")
            (server,) = set(running(*SERVING)).difference(before)
            os.kill(server, signal.SIGTERM)  # what the platform does; buildah would not pass it on
            ended, log = process.wait(60), (job / "serve.log").read_text()
            assert ended in (0, 128 + signal.SIGTERM), log  # as the system tells that a signal came
            assert "Application shutdown complete" in log
    finally:
        buildah(root, "rm", made)


@pytest.mark.slow
def test_the_image_of_mxnet_trains(root: Path, tmp_path: Path) -> None:
    made = build(root, "mxnet")
    (tmp_path / "rows.csv").write_text(CSV)
    command = "finetune classification --edition mxnet --model d2lbert-tiny --epochs 1"
    command += " --train rows.csv --dev rows.csv --out model"
    entry = entry_point(instructions(root, "mxnet"))
    try:
        buildah(root, "run", "-v", f"{tmp_path}:/work", made, "--", *entry, *command.split())
    finally:
        buildah(root, "rm", made)
    assert (tmp_path / "model" / "config.json").is_file()
