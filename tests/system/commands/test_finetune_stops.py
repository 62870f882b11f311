"""``d2lbert finetune`` stopped by Ctrl-C or a full disk: what is left, and how it goes on."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from cli_support import Result, check_complaint, complaint, finetune_command, run
from process_support import hearing_ctrl_c, with_full_disk


def test_an_old_checkpoint_is_mentioned(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    old = tmp_path / "out.checkpoint" / "checkpoint-00000001"
    old.mkdir(parents=True)
    result = run(*finetune_command(encoder, train_file, tmp_path / "out", "--epochs", "1"))
    assert result.returncode == 0, result.stderr
    assert f"{old.parent} is of a run that was stopped; only --resume goes on with it" in result.stderr
    assert old.is_dir()


def _interrupt(command: list[str | Path], awaited: str) -> str:
    """Run a command until its progress bar shows a pattern, press Ctrl-C, and return what it says last."""
    program = hearing_ctrl_c([sys.executable, "-m", "d2lbert.cli", *map(str, command)])
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        head = ""
        while not re.search(awaited, head):
            read = process.stderr.read(1)
            assert read, f"it ended before {awaited!r} was seen: {head}"
            head += read
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 130
    assert "Traceback" not in head + stderr
    assert not stdout
    return stderr.splitlines()[-1]


def test_interrupt_writes_nothing(encoder: Path, tmp_path: Path) -> None:
    """Ctrl-C in the middle of the training: one line, no traceback, no folder."""
    command = finetune_command(encoder, "sst2", tmp_path / "out", "--epochs", "100000")
    assert _interrupt(command, "epoch 1") == "interrupted; nothing was written"
    assert not list(tmp_path.iterdir())


def test_interrupt_of_a_run_with_checkpoints_says_how_to_go_on(encoder: Path, tmp_path: Path) -> None:
    command = finetune_command(encoder, "sst2", tmp_path / "out", "--epochs", "100000", "--resume")
    line = _interrupt(command, r"epoch (?:[2-9]|\d\d)")  # the first is over
    assert line == f"interrupted; the same command goes on from the last step, in {tmp_path / 'out.checkpoint'}"
    assert [path.name for path in tmp_path.iterdir()] == ["out.checkpoint"]


def test_an_interrupted_run_goes_on_from_its_last_step(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """Its state lies where --checkpoint says, beside what is there, and is gone when the model is there."""
    state, options = tmp_path / "state", ("--epochs", "80", "--batch-size", "1", "--seed", "7")
    command = finetune_command(encoder, train_file, tmp_path / "out", *options, "--checkpoint", str(state))
    _interrupt(command, r"epoch (?:[2-9]|\d\d)")
    steps = [int(path.name.partition("-")[2]) for path in state.glob("checkpoint-*")]
    assert steps
    assert not (tmp_path / "out").exists()
    (state / "thesis.txt").write_text("years of work")
    assert run(*command).returncode == 0
    assert run(*finetune_command(encoder, train_file, tmp_path / "whole", *options)).returncode == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "whole")]
    assert weights[0] == weights[1]
    assert [path.name for path in state.iterdir()] == ["thesis.txt"]


def test_a_place_for_checkpoints_that_cannot_be(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    command = finetune_command(encoder, train_file, tmp_path / "out", "--checkpoint")
    assert complaint(*command, str(train_file)) == f"d2lbert: --checkpoint {train_file} is a file: choose a folder"
    for inside in (tmp_path / "out", tmp_path / "out" / "state"):
        assert "lies in --out, which is for the model alone" in complaint(*command, str(inside))


def test_full_disk_leaves_nothing(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """A limit on file size stops the writing of the weights in the middle, as a full disk does."""
    command = [sys.executable, "-m", "d2lbert.cli"]
    command += map(str, finetune_command(encoder, train_file, tmp_path / "out", "--epochs", "1"))
    process = subprocess.run(with_full_disk(command, 100_000), capture_output=True, text=True)
    line = check_complaint(Result(process.returncode, process.stdout, process.stderr))
    assert "cannot write" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.csv"]


def test_full_disk_while_a_checkpoint_is_written(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """The first is one line; with space again the same command goes on, here from the beginning."""
    command = finetune_command(encoder, train_file, tmp_path / "out", "--epochs", "2", "--resume")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        line = complaint(*command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    target = tmp_path / "out.checkpoint" / "checkpoint-00000001"  # four sentences are one step
    assert line == f"d2lbert: cannot write {target}: File too large; free space, then go on with --resume"
    assert not list(target.parent.iterdir())
    assert run(*command).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.csv"]


def test_a_checkpoint_that_is_left_is_gone_on_from(encoder: Path, train_file: Path, tmp_path: Path) -> None:
    """Interrupted after an epoch; another setting is refused, the same goes on."""
    command = finetune_command(encoder, train_file, tmp_path / "out", "--epochs", "2", "--resume")
    (tmp_path / "out.checkpoint" / "checkpoint-00000001").mkdir(parents=True)
    assert "out.checkpoint to start anew" in complaint(*command)
    shutil.rmtree(tmp_path / "out.checkpoint")
    assert run(*command).returncode == 0
