"""The program ``train``: from the files of a job to a run, its signals, its failures, its results."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from sagemaker_support import CSV, container, program, write_job
from server_support import free_port

from d2lbert import UserError
from d2lbert.commands.group import imported
from d2lbert.deploy.sagemaker import train
from d2lbert.deploy.sagemaker.contract import Places, read_job

FAST = {"task": "classification", "epochs": "3", "batch_size": "4", "lr": "0.01"}
LONG_ENOUGH = 300  # seconds after which a container that hangs is given up


def arguments(root: Path) -> list[str]:
    """Return what ``d2lbert`` would be told for the job under a folder."""
    job = read_job({"SAGEMAKER_BASE_DIR": str(root)})
    command = train.command_of(job, Places(root))
    return command[command.index("d2lbert.cli") + 1 :]


def run_train(root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    command, environment = program("train"), container(root, **variables)
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONG_ENOUGH)


def job_with_model(root: Path, encoder: Path, hyperparameters: dict[str, str]) -> Path:
    """Write a job whose channel ``model`` is the tiny encoder."""
    write_job(root, hyperparameters, {"train": {"rows.csv": CSV}, "dev": {"rows.csv": CSV}})
    shutil.copytree(encoder, root / "input" / "data" / "model")
    return root


def test_a_job_becomes_a_command(tmp_path: Path) -> None:
    given = {
        **FAST,
        "balanced": "true",
        "packed": '"false"',
        "bias-correction": "True",
        "label_column": '"mark"',
        "sagemaker_program": "x.py",
        "_tuning_objective_metric": "accuracy",
    }
    write_job(tmp_path, given, {"training": {"a.csv": CSV, ".hidden": ""}, "validation": {"b.csv": CSV}})
    data = tmp_path / "input" / "data"
    assert arguments(tmp_path) == [
        "finetune", "classification",
        "--train", str(data / "training" / "a.csv"), "--dev", str(data / "validation" / "b.csv"),
        "--out", str(tmp_path / "model"), "--checkpoint", str(tmp_path / "checkpoints"),
        "--epochs", "3", "--batch-size", "4", "--lr", "0.01", "--balanced", "--no-packed", "--label-column", "mark",
        "--model", "minilm",
    ]  # fmt: skip


def test_a_data_set_of_the_book_needs_no_channel(tmp_path: Path) -> None:
    write_job(tmp_path, {"task": "classification", "train": "sst2", "model": "d2lbert-tiny"}, {})
    given = arguments(tmp_path)
    assert given[given.index("--train") + 1] == "sst2"
    assert given[given.index("--model") + 1] == "d2lbert-tiny"


def test_a_channel_of_many_files_is_told_which(tmp_path: Path) -> None:
    write_job(tmp_path, {**FAST, "train": "b.csv"}, {"train": {"a.csv": CSV, "b.csv": CSV}})
    assert str(tmp_path / "input" / "data" / "train" / "b.csv") in arguments(tmp_path)


def test_pretraining_keeps_its_run_with_the_checkpoints(tmp_path: Path) -> None:
    write_job(tmp_path, {"command": "pretrain", "steps": "9", "cased": "true"}, {"corpus": {"a.txt": "text"}})
    corpus, run = tmp_path / "input" / "data" / "corpus", tmp_path / "checkpoints"
    assert arguments(tmp_path) == [
        "pretrain", "--corpus", str(corpus), "--out", str(run), "--resume", "--steps", "9", "--cased",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("hyperparameters", "channels", "hosts", "message"),
    [
        ({**FAST, "epocs": "3"}, {"train": {"a.csv": CSV}}, 1, "unknown hyperparameter 'epocs': did you mean epochs"),
        ({**FAST, "out": "x"}, {"train": {"a.csv": CSV}}, 1, "the hyperparameter out is set by the container"),
        ({**FAST, "balanced": "perhaps"}, {"train": {"a.csv": CSV}}, 1, "balanced is 'perhaps': give true or false"),
        ({**FAST, "epochs": "[1]"}, {"train": {"a.csv": CSV}}, 1, "give one text or number"),
        ({"command": "serve"}, {}, 1, "unknown command 'serve'"),
        ({}, {"train": {"a.csv": CSV}}, 1, "the hyperparameter task is missing"),
        (FAST, {}, 1, "there is no channel train"),
        (FAST, {"train": {}}, 1, "the channel train has no file"),
        (FAST, {"train": {"a.csv": CSV, "b.csv": CSV}}, 1, "the channel train has 2 files"),
        ({**FAST, "train": "c.csv"}, {"train": {"a.csv": CSV}}, 1, "the channel train has no file c.csv"),
        (FAST, {"train": {"a.csv": CSV}}, 2, "finetune runs on one machine, the job has 2"),
        ({"command": "pretrain"}, {}, 1, "there is no channel corpus"),
        ({"command": "pretrain"}, {"corpus": {"a.txt": "x"}}, 2, "several machines need a disk that all can write"),
    ],
)
def test_what_is_wrong_is_told(
    tmp_path: Path, hyperparameters: dict[str, str], channels: dict[str, Any], hosts: int, message: str
) -> None:
    write_job(tmp_path, hyperparameters, channels, [f"algo-{number + 1}" for number in range(hosts)])
    for name in channels:
        (tmp_path / "input" / "data" / name).mkdir(parents=True, exist_ok=True)
    with pytest.raises(UserError, match=message):
        arguments(tmp_path)


@pytest.mark.parametrize("name", ["finetune", "pretrain"])
def test_every_option_of_a_command_is_a_hyperparameter_of_the_same_name(name: str) -> None:
    """And has its default, so that a switch that is on by default can be turned off."""
    ours = train._COMMANDS[name].options
    theirs = {
        option.opts[0].removeprefix("--").replace("-", "_"): option
        for option in imported(name).params
        if option.opts[0].startswith("--")
    }
    # The container has PyTorch alone, so there is no edition to choose.
    elsewhere = {"out", "resume", "checkpoint", "corpus", "prepare", "vocab", "engine", "edition", "help"}
    assert set(ours) == set(theirs) - elsewhere
    for option in set(ours) & set(theirs):
        assert isinstance(ours[option], bool) == theirs[option].is_flag, option


def test_a_job_is_trained(tmp_path: Path, encoder: Path) -> None:
    root = job_with_model(tmp_path, encoder, FAST)
    run = run_train(root)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1])["epoch"] in (1, 2, 3)
    assert "epoch 1: loss" in run.stdout, "a tuning job reads scores from lines like this"
    assert {"config.json", "model.safetensors", "vocab.txt"} <= {path.name for path in (root / "model").iterdir()}
    assert len(json.loads((root / "output" / "data" / "training.json").read_text())) == 3
    assert not (root / "output" / "failure").exists()
    assert not list((root / "model").glob(".*"))


def test_a_mistake_is_the_reason_of_the_failure(tmp_path: Path, encoder: Path) -> None:
    """Found here, or by the command."""
    root = job_with_model(tmp_path / "a", encoder, {**FAST, "epocs": "2"})
    run = run_train(root)
    assert run.returncode == 2
    (line,) = run.stderr.splitlines()
    assert line.startswith("d2lbert: unknown hyperparameter 'epocs': did you mean epochs")
    assert line == f"d2lbert: {(root / 'output' / 'failure').read_text()}"
    root = job_with_model(tmp_path / "b", encoder, {**FAST, "label_column": "mark"})
    run = run_train(root)
    assert run.returncode == 2
    assert "mark" in (root / "output" / "failure").read_text()
    assert run.stderr.splitlines()[-1] == f"d2lbert: {(root / 'output' / 'failure').read_text()}"
    assert not list((root / "model").iterdir())


def test_an_error_of_the_program_gives_its_last_line_as_the_reason() -> None:
    trace = "50%|###\r60%|####\nTraceback (most recent call last):\n  File x\nZeroDivisionError: division by zero\n"
    assert train._reason(1, trace) == "ZeroDivisionError: division by zero"
    assert train._reason(2, f"d2lbert: mend it\n{trace}") == "mend it"
    assert train._reason(137, "half a li") == (
        "the run was killed, as the system does where memory is short: take a larger instance or smaller batches"
    )
    assert train._reason(1, "") == "the run ended with status 1"


def interrupt(root: Path, after: int) -> int:
    """Start a container, stop it as SageMaker does once so many checkpoints were seen, and return its status."""
    with subprocess.Popen(program("train"), stderr=subprocess.PIPE, text=True, env=container(root)) as process:
        end = time.monotonic() + LONG_ENOUGH
        while len(list((root / "checkpoints").glob("checkpoint-*"))) < after:
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=LONG_ENOUGH)[1]
    assert "Traceback" not in errors
    return process.returncode


@pytest.mark.slow
def test_a_spot_interruption_loses_nothing(tmp_path: Path, encoder: Path) -> None:
    """SIGTERM saves the state; the next start, on another machine, goes on from it to the same bits."""
    given = {**FAST, "epochs": "40", "lr": "0.001"}
    whole = job_with_model(tmp_path / "whole", encoder, given)
    assert run_train(whole).returncode == 0
    first = job_with_model(tmp_path / "first", encoder, given)
    assert interrupt(first, 2) == train.STOPPED
    assert not list((first / "model").iterdir())
    assert not (first / "output" / "failure").exists()
    second = job_with_model(tmp_path / "second", encoder, given)
    shutil.copytree(first / "checkpoints", second / "checkpoints")  # what S3 does
    assert run_train(second).returncode == 0
    weights = [(root / "model" / "model.safetensors").read_bytes() for root in (whole, second)]
    assert weights[0] == weights[1]
    kept = [json.loads((root / "model" / "training.json").read_text()) for root in (whole, second)]
    assert [row["loss"] for row in kept[0]] == [row["loss"] for row in kept[1]]


def test_stopped_before_there_is_anything_to_save(tmp_path: Path, encoder: Path) -> None:
    """While a pipe keeps it waiting for its first file: whoever is the first process of a container needs a handler."""
    root = job_with_model(tmp_path, encoder, FAST)
    hyperparameters = root / "input" / "config" / "hyperparameters.json"
    hyperparameters.unlink()
    os.mkfifo(hyperparameters)
    with subprocess.Popen(program("train"), stderr=subprocess.PIPE, env=container(root)) as process:
        pipe = None
        while pipe is None:
            assert process.poll() is None
            with contextlib.suppress(OSError):  # nobody reads yet
                pipe = os.open(hyperparameters, os.O_WRONLY | os.O_NONBLOCK)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_ENOUGH) == train.STOPPED
        os.close(pipe)
    assert not list((root / "model").iterdir())
    assert not (root / "output" / "failure").exists()


def test_pretraining_takes_every_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    write_job(tmp_path, {"command": "pretrain", "sharded": "true"}, {"corpus": {"a.txt": "text"}})
    command = train.command_of(read_job({"SAGEMAKER_BASE_DIR": str(tmp_path)}), Places(tmp_path))
    assert command[1:6] == ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    assert command[-1] == "--sharded"


@pytest.mark.slow
def test_two_machines_pretrain_one_model(tmp_path: Path, root: Path) -> None:
    """Both are this one, under two names; the disk that they share holds the run, the first has the model."""
    text = (root / "data" / "samples" / "wikipedia_en").rglob("*")
    corpus = {"a.txt": "\n".join(path.read_text() for path in sorted(text) if path.is_file())}
    hyperparameters = {
        "command": "pretrain", "steps": "6", "vocab_size": "600", "max_length": "32", "batch_size": "4",
        "accumulation": "2", "save_every": "3", "dev_share": "0.2",
    }  # fmt: skip
    shared, hosts = tmp_path / "shared", ["127.0.0.1", "localhost"]
    shared.mkdir()
    machines = []
    for number, host in enumerate(hosts):
        machine = write_job(tmp_path / f"machine{number}", hyperparameters, {"corpus": corpus}, hosts, host)
        (machine / "input" / "config" / "resourceconfig.json").write_text(
            json.dumps({"current_host": host, "hosts": hosts, "network_interface_name": "lo"})
        )
        (machine / "input" / "data" / "shared").symlink_to(shared)
        machines.append(machine)
    port = str(free_port())
    processes = [
        subprocess.Popen(program("train"), stderr=subprocess.PIPE, text=True, env=container(machine, MASTER_PORT=port))
        for machine in machines
    ]
    said = [process.communicate(timeout=LONG_ENOUGH)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert (machines[0] / "model" / "config.json").is_file()
    assert (machines[0] / "output" / "data" / "log.csv").is_file()
    assert not list((machines[1] / "model").iterdir()), "one machine has the model"
