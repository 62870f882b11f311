"""Run a child process and learn what it alone used: processor time and the peak of its memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.record import ROOT


class Used(NamedTuple):
    """What a process used.

    Fields:
        seconds: of processor time, its own and the system's for it. Waiting, for a disk or another process, is not in
            it, so it hardly depends on what else the machine does.
        mebibytes: the peak of its resident memory; at least that of the process that started it, of which it is a fork.
        output: what it printed.
    """

    seconds: float
    mebibytes: float
    output: str


def used_by(words: Sequence[str], environment: Mapping[str, str] | None = None) -> Used:
    """Run Python with some words, in one thread, and return what it used.

    Args:
        words: such as ``["-c", "import torch"]``.
        environment: variables besides those of this process.

    Raises:
        SystemExit: it failed.
    """
    # The package is that of this checkout. An environment that keeps no byte code would compile it in every process.
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environment or {})}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryFile("w+") as errors:  # not a second pipe: it may be full before the first one ends
        process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=errors, env=variables, text=True
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            errors.seek(0)
            raise SystemExit(f"{' '.join(words)} ended with {process.returncode}: {errors.read()[-2000:]}")
    unit = 2**20 if sys.platform == "darwin" else 2**10  # of ru_maxrss: bytes there, kibibytes elsewhere
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit, output)


def cached_code(folder: str | Path) -> dict[str, str]:
    """Return the environment in which byte code is kept in a folder: after the first run it is read, as a user's is."""
    return {"PYTHONPYCACHEPREFIX": str(folder)}
