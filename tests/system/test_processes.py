"""``torchrun`` and ``d2lbert pretrain``: two processes, whole or sharded, do what one does; a dead one is replaced."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

COMMAND = ["-m", "d2lbert.cli", "pretrain"]
SMALL = ["--config", "tiny", "--max-length", "32", "--batch-size", "8", "--accumulation", "4", "--lr", "1e-3"]
pytestmark = pytest.mark.slow
LONG_ENOUGH = 600  # seconds after which a run that hangs is given up


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """One thread a process; the folder of this checkout first; no GPU, so that the processes talk through gloo."""
    root = str(Path(__file__).resolve().parents[2])
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


def _torchrun(processes: int, *more: str) -> list[str]:
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return [*run, "--monitor-interval", "0.2", *more]


def _log(out: Path) -> list[dict[str, str]]:
    with (out / "log.csv").open() as stream:
        rows = csv.DictReader(stream)
        return [{name: value for name, value in row.items() if name != "tokens_per_second"} for row in rows]


def _run(command: list[str], environment: dict[str, str]) -> str:
    """Run a command to its end and return what it said on standard error."""
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG_ENOUGH)
    assert run.returncode == 0, run.stderr
    return run.stderr


def _check_losses(first: list[dict[str, str]], second: list[dict[str, str]]) -> None:
    """Compare two logs: the same steps, and all values within 1e-4."""
    assert [row["step"] for row in first] == [row["step"] for row in second]
    assert first[-1]["step"] == "40"
    for row, second_row in zip(first, second, strict=True):
        for name, value in row.items():
            assert (value == "") == (second_row[name] == "")
            if value:
                assert abs(float(value) - float(second_row[name])) < 1e-4, (row["step"], name)


@pytest.fixture(scope="module")
def two(corpus: Path, environment: dict[str, str]) -> Path:
    """A run of two processes that nothing disturbed."""
    out = corpus.parent / "two"
    _run([*_torchrun(2), *_options(corpus, out)], environment)
    return out


@pytest.fixture(scope="module")
def sharded(corpus: Path, environment: dict[str, str]) -> Path:
    """The same run with a part of the model at each process, and all its checkpoints."""
    out = corpus.parent / "sharded"
    _run([*_torchrun(2), *_options(corpus, out), "--sharded", "--keep", "9"], environment)
    return out


def test_two_processes_have_the_losses_of_one(corpus: Path, two: Path, environment: dict[str, str]) -> None:
    """With dropout: its seed is that of the batch, whichever process computes it."""
    one = corpus.parent / "one"
    _run([sys.executable, *_options(corpus, one)], environment)
    _check_losses(_log(one), _log(two))
    weights = [load_file(out / "model.safetensors") for out in (one, two)]
    assert all(np.abs(weights[0][name] - weights[1][name]).max() < 1e-3 for name in weights[0])


def test_sharded_processes_have_the_losses_of_whole_ones(two: Path, sharded: Path) -> None:
    _check_losses(_log(two), _log(sharded))
    weights, expected = (load_file(out / "model.safetensors") for out in (sharded, two))
    assert all(np.abs(weights[name] - expected[name]).max() < 1e-3 for name in expected)
    parts = (sharded / "checkpoints" / "checkpoint-00000020" / "state").iterdir()
    sizes = [sum(tensor.nbytes for tensor in load_file(part).values()) for part in parts]
    assert len(sizes) == 2
    assert max(sizes) < 0.55 * sum(sizes)  # each process wrote its half


@pytest.mark.parametrize("processes", [1, 4])
def test_a_sharded_run_goes_on_with_any_number_of_processes(
    corpus: Path, sharded: Path, environment: dict[str, str], tmp_path: Path, processes: int
) -> None:
    """One process, or four, resume from what two had saved after step 20, as if these had been stopped then."""
    out = tmp_path / "out"
    shutil.copytree(sharded / "checkpoints", out / "checkpoints")
    for folder in sorted((out / "checkpoints").iterdir())[4:]:
        shutil.rmtree(folder)
    start = [sys.executable] if processes == 1 else _torchrun(processes)
    more = [] if processes == 1 else ["--sharded"]
    errors = _run([*start, *_options(corpus, out), *more, "--resume"], environment)
    assert "going on after step 20" in errors
    _check_losses(_log(sharded)[2:], _log(out))
    weights, expected = (load_file(folder / "model.safetensors") for folder in (out, sharded))
    assert all(np.abs(weights[name] - expected[name]).max() < 1e-3 for name in expected)


def test_a_killed_worker_is_replaced_without_losing_data(
    corpus: Path, two: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """torchrun starts all workers again; they go on from the last checkpoint and end with the same bits."""
    command = [*_torchrun(2, "--max-restarts", "2"), *_options(corpus, tmp_path / "out"), "--resume"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as agent:
        began = time.monotonic()
        while not list(tmp_path.glob("out/checkpoints/checkpoint-*")):
            assert agent.poll() is None
            assert time.monotonic() - began < LONG_ENOUGH
            time.sleep(0.02)
        workers = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
        assert len(workers) >= 2
        os.kill(int(workers[-1]), signal.SIGKILL)
        _, errors = agent.communicate(timeout=LONG_ENOUGH)
    assert agent.returncode == 0, errors
    assert "going on after step" in errors
    for name in ("model.safetensors", "config.json", "vocab.txt"):
        assert (tmp_path / "out" / name).read_bytes() == (two / name).read_bytes(), name
    assert _log(tmp_path / "out") == _log(two)


def test_interrupted_processes_save_the_same_step(
    corpus: Path, two: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """Ctrl-C reaches them during different steps; all save one, and the next start goes on from it to the same bits."""
    out = tmp_path / "out"
    command = [*_torchrun(2), *_options(corpus, out), "--save-every", "1000", "--resume"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as agent:
        began = time.monotonic()
        while not (out / "log.csv").exists() or not _log(out):  # it has a row for every tenth step
            assert agent.poll() is None
            assert time.monotonic() - began < LONG_ENOUGH
            time.sleep(0.02)
        agent.send_signal(signal.SIGINT)
        _, errors = agent.communicate(timeout=LONG_ENOUGH)
    (saved,) = (out / "checkpoints").iterdir()
    assert f"interrupted after step {int(saved.name.partition('-')[2])}; --resume goes on after" in errors
    assert f"going on after step {int(saved.name.partition('-')[2])}" in _run(command, environment)
    assert (out / "model.safetensors").read_bytes() == (two / "model.safetensors").read_bytes()
    assert _log(out) == _log(two)


def test_batches_that_cannot_be_shared(corpus: Path, environment: dict[str, str], tmp_path: Path) -> None:
    command = [*_torchrun(2), *_options(corpus, tmp_path / "out"), "--accumulation", "3"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG_ENOUGH)
    assert run.returncode != 0
    assert "d2lbert: pretraining: 2 processes cannot share 3 batches a step evenly" in run.stderr
