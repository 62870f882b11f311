"""Run the command line inside a test, and check how it complains."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from pathlib import Path

from d2lbert.cli import main


@dataclass
class Result:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str | Path) -> Result:
    """Run the command in this process: importing PyTorch for each would take most of the time."""
    stdout, stderr, status = io.StringIO(), io.StringIO(), 0
    before = sys.argv
    sys.argv = ["d2lbert", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            main()
    except SystemExit as error:
        status = int(error.code or 0)
    finally:
        sys.argv = before
    return Result(status, stdout.getvalue(), stderr.getvalue())


def complaint(*arguments: str | Path) -> str:
    """Run a mistake; check that it ends in one line and status 2, and return the line."""
    return check_complaint(run(*arguments))


def check_complaint(result: Result) -> str:
    lines = [line for line in result.stderr.splitlines() if line.strip() and not line.startswith(("warning:", "note:"))]
    lines = [line for line in lines if "%|" not in line]  # the progress bar
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("d2lbert: ")
    return lines[0]


def finetune_command(encoder: Path, train: str | Path, out: Path, *more: str) -> list[str | Path]:
    return ["finetune", "classification", "--model", encoder, "--train", train, "--dev", train, "--out", out, *more]
