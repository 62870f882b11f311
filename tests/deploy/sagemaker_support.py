"""The files of a training job, as SageMaker lays them down before a container starts; and containers without Docker."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx
from server_support import free_port

ROOT = Path(__file__).resolve().parents[2]
ROWS = [("what a good film", "good"), ("a bad plot", "bad"), ("fine and good", "good"), ("poor and bad", "bad")] * 3
CSV = "text,label\n" + "".join(f"{text},{label}\n" for text, label in ROWS)


def write_job(
    root: Path,
    hyperparameters: Mapping[str, str],
    channels: Mapping[str, Mapping[str, str]],
    hosts: Sequence[str] = ("algo-1",),
    current: str = "",
) -> Path:
    """Write a job under a root folder, and return the root.

    Args:
        channels: name -> name of a file -> its content.
        hosts: all machines.
        current: this one; by default the first.
    """
    config = root / "input" / "config"
    config.mkdir(parents=True, exist_ok=True)
    (config / "hyperparameters.json").write_text(json.dumps(dict(hyperparameters)))
    kinds = {name: {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"} for name in channels}
    (config / "inputdataconfig.json").write_text(json.dumps(kinds))
    resources = {"current_host": current or hosts[0], "hosts": list(hosts), "network_interface_name": "eth0"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    for channel, files in channels.items():
        for name, content in files.items():
            path = root / "input" / "data" / channel / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    (root / "model").mkdir(exist_ok=True)  # the platform makes it
    return root


def program(name: str) -> list[str]:
    """Return the command line of a program of the container, ``train`` or ``serve``."""
    return [sys.executable, "-m", "d2lbert.deploy.sagemaker", name]


def container(root: Path, **more: str) -> dict[str, str]:
    """Return the variables of a container whose files lie under a folder. It has no network and one thread."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SM_", "D2LBERT_DATA"))}
    ours = {"SAGEMAKER_BASE_DIR": str(root), "D2LBERT_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    packages = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**inherited, **ours, "PYTHONPATH": packages, "CUDA_VISIBLE_DEVICES": "", **more}


@contextlib.contextmanager
def serving(root: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], httpx.Client]]:
    """Start the container's ``serve`` and wait until ``/ping`` answers; end it afterwards, whatever happens."""
    port = str(free_port())
    environment = container(root, SAGEMAKER_BIND_TO_PORT=port, **variables)
    with (root / "serve.log").open("wb") as log:
        process = subprocess.Popen(program("serve"), stdout=log, stderr=subprocess.STDOUT, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_for_ping(client, process, root / "serve.log")
            yield process, client
    finally:
        process.kill()
        process.wait(60)


def wait_for_ping(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until ``/ping`` answers, for two minutes at most, or fail with what the process has written."""
    for _ in range(1200):
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(httpx.HTTPError):
            if client.get("/ping").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError(f"no answer to /ping in two minutes: {log.read_text()}")
