"""Run the command line many times in fresh processes, without importing PyTorch for each.

A server imports all that commands need, once; every command is a fork of it, so that it starts in milliseconds with its
own folder, environment, limits and streams, and a traceback is seen as Python prints it. Run as a program, this file is
the server: a line of JSON on standard input for each command, a line of JSON back.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_MODULES = ("d2lbert.cli", "d2lbert.models", "d2lbert.torch.heads", "d2lbert.torch.training.finetuning")
_MODULES += ("d2lbert.torch.training.pretraining", "d2lbert.torch.training.evaluation", "d2lbert.torch.relatives")
_MODULES += ("d2lbert.data.pretraining.batches", "sklearn.metrics", "scipy.stats", "safetensors.torch", "pooch")
_MODULES += ("huggingface_hub.file_download", "requests")
_MODULES += tuple(f"d2lbert.commands.{name}" for name in ("pretrain", "finetune", "predict", "inspect", "export"))
_MODULES += tuple(f"d2lbert.commands.{name}" for name in ("serve", "doctor", "models"))


@dataclass
class Command:
    """A command to be run.

    Fields:
        arguments: after ``d2lbert``.
        folder: in which it runs; also its home.
        environment: more variables.
        stdout: a file, such as ``/dev/full``, that takes the place of standard output; ``-`` closes it, ``|`` is a pipe
            that nobody reads.
        before: Python that runs in the process first.
        modes_count: whether root is bound by the modes of files, as others are.
        memory: gibibytes of address space beyond what the server has; 0 for no limit.
        largest_file: bytes; 0 for no limit.
        signals: (seconds, number) of signals that are sent, so long after the program has begun its command.
        seconds: after which the process is killed.
    """

    arguments: list[str]
    folder: str
    environment: dict[str, str] = field(default_factory=dict)
    stdout: str = ""
    before: str = ""
    modes_count: bool = False
    memory: float = 0
    largest_file: int = 0
    signals: list[tuple[float, int]] = field(default_factory=list)
    seconds: float = 60


@dataclass
class Ended:
    """How a command ended; the status of one that a signal killed is negative."""

    status: int
    stdout: str
    stderr: str


class ForkServer:
    """A server, and the way to it."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", "D2LBERT_OFFLINE": "1"}
        for name in ("D2LBERT_DATA", "D2LBERT_CACHE", "D2LBERT_HUB"):
            environment.pop(name, None)
        command = [sys.executable, str(Path(__file__).resolve())]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def run(self, command: Command) -> Ended:
        """Run a command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(command)) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


def drop_capabilities() -> None:
    """Let modes of files count for root: give up the right to pass over them."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def _serve() -> None:
    for module in _MODULES:
        __import__(module)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(asdict(_fork(Command(**json.loads(line))))), flush=True)


def _fork(command: Command) -> Ended:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begun, begins = os.pipe()
        child = os.fork()
        if not child:
            _become(command, out.fileno(), err.fileno(), begins)
        os.close(begins)
        status = _wait(child, command, begun)
        os.close(begun)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
        return Ended(status, *texts)


def _wait(child: int, command: Command, begun: int) -> int:
    """Send the signals, kill at the time limit, and return the status.

    Args:
        begun: a pipe that says when the command begins. Before, the child is still this server: a signal would not meet
            the program.
    """
    if command.signals:
        os.read(begun, 1)
    began, waiting = time.monotonic(), sorted(command.signals)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        passed = time.monotonic() - began
        while waiting and passed >= waiting[0][0]:
            os.kill(child, waiting.pop(0)[1])
        if passed > command.seconds:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)


def _become(command: Command, out: int, err: int, begins: int) -> None:
    """Turn this fork into the command, and say through a pipe when it begins; it never returns."""
    status: Any = 70
    try:
        os.chdir(command.folder)
        os.environ.update({"HOME": command.folder, **command.environment})
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _redirect(command.stdout, out)
        os.dup2(err, 2)
        if command.memory:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            limit = used + int(command.memory * 2**30)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        if command.largest_file:
            resource.setrlimit(resource.RLIMIT_FSIZE, (command.largest_file, command.largest_file))
        if command.modes_count and os.geteuid() == 0:
            drop_capabilities()
        sys.argv = ["d2lbert", *command.arguments]
        # A program begins with Python's own handlers, not with those of a server.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        exec(command.before, {})
        _run_command(begins)
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        status = 1
        traceback.print_exc()
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    try:  # as Python does at its end
        if sys.stdout is not None:
            sys.stdout.flush()
    except Exception:
        status = 120
        traceback.print_exc()
    os._exit(status or 0)


def _run_command(begins: int) -> None:
    """Run the command line, and write into a pipe when its command begins."""
    from d2lbert import cli

    run = cli._run

    def announced() -> Any:
        os.write(begins, b".")
        return run()

    cli._run = announced
    cli.main()


def _redirect(stdout: str, out: int) -> None:
    """Give this process its standard output."""
    if stdout == "-":
        os.close(1)
        sys.stdout = None  # type: ignore[assignment]
        return
    if stdout == "|":
        reader, out = os.pipe()
        os.close(reader)
    elif stdout:
        out = os.open(stdout, os.O_WRONLY)
    os.dup2(out, 1)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")  # buffered, as output that is no terminal is
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)


if __name__ == "__main__":
    _serve()
