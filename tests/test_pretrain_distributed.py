"""``d2lbert pretrain`` under ``torchrun``: two processes do what one does."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

COMMAND = ["-m", "d2lbert.cli", "pretrain"]
SMALL = ["--config", "tiny", "--max-length", "32", "--batch-size", "8", "--accumulation", "2", "--lr", "1e-3"]
LONG_ENOUGH = 600  # seconds after which a run that hangs is given up


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """One thread a process; the folder of this checkout first; no GPU, so that the processes talk through gloo."""
    root = str(Path(__file__).resolve().parent.parent)
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": root, "CUDA_VISIBLE_DEVICES": ""}


@pytest.fixture(scope="module")
def corpus(root: Path, tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("distributed") / "corpus"
    sample = str(root / "data" / "samples" / "wikipedia_en")
    options = ["--corpus", sample, "--out", str(folder), "--prepare", "--vocab-size", "1000", "--dev-share", "0.2"]
    subprocess.run([sys.executable, *COMMAND, *options], check=True, env=environment)
    return folder


def _options(corpus: Path, out: Path) -> list[str]:
    return [*COMMAND, "--corpus", str(corpus), "--out", str(out), "--steps", "40", "--save-every", "5", *SMALL]


def _torchrun(processes: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]


def _log(out: Path) -> list[dict[str, str]]:
    with (out / "log.csv").open() as stream:
        rows = csv.DictReader(stream)
        return [{name: value for name, value in row.items() if name != "tokens_per_second"} for row in rows]


@pytest.fixture(scope="module")
def two(corpus: Path, environment: dict[str, str]) -> Path:
    """A run of two processes that nothing disturbed."""
    out = corpus.parent / "two"
    run = subprocess.run(
        [*_torchrun(2), *_options(corpus, out)], capture_output=True, text=True, env=environment, timeout=LONG_ENOUGH
    )
    assert run.returncode == 0, run.stderr
    return out


def test_two_processes_have_the_losses_of_one(corpus: Path, two: Path, environment: dict[str, str]) -> None:
    """With dropout: its seed is that of the batch, whichever process computes it."""
    one = corpus.parent / "one"
    subprocess.run([sys.executable, *_options(corpus, one)], check=True, env=environment, capture_output=True)
    rows = _log(one), _log(two)
    assert [row["step"] for row in rows[0]] == ["10", "20", "30", "40"] == [row["step"] for row in rows[1]]
    for first, second in zip(*rows, strict=True):
        for name, value in first.items():
            assert (value == "") == (second[name] == "")
            if value:
                assert abs(float(value) - float(second[name])) < 1e-4, (first["step"], name)
    weights = [load_file(out / "model.safetensors") for out in (one, two)]
    assert all(np.abs(weights[0][name] - weights[1][name]).max() < 1e-3 for name in weights[0])


def test_batches_that_cannot_be_shared(corpus: Path, environment: dict[str, str], tmp_path: Path) -> None:
    command = [*_torchrun(2), *_options(corpus, tmp_path / "out"), "--accumulation", "3"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG_ENOUGH)
    assert run.returncode != 0
    assert "d2lbert: pretraining: 2 processes cannot share 3 batches a step evenly" in run.stderr
