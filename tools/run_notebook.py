"""Run one notebook through papermill, keep the executed copy, and write into it what the run took."""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import papermill
import psutil
from nbclient.exceptions import CellTimeoutError

_SAMPLING_SECONDS = 0.25


@dataclass(frozen=True)
class Run:
    """One executed notebook.

    Fields:
        path: of the source, relative to the root.
        executed: the executed copy.
        cached: whether an earlier run was reused.
        seconds: wall time of the run.
        error: one line, empty where the run went through.
    """

    path: Path
    executed: Path
    cached: bool
    seconds: float
    error: str = ""

    def summary(self) -> str:
        """Return what happened in a few words."""
        if self.error:
            return f"FAILED after {self.seconds:.0f} s"
        return f"unchanged ({self.seconds:.0f} s when it ran)" if self.cached else f"{self.seconds:.0f} s"


def execute(path: Path, root: Path, folder: Path, parameters: dict[str, Any], cell_seconds: int | None = None) -> Run:
    """Run the notebook at ``root / path``, or take the copy in ``folder`` if nothing has changed since.

    An error inside the notebook is returned, not raised, so that the caller can go on with the others. Where another
    process runs the same notebook into the same folder, its copy is waited for.

    Args:
        cell_seconds: a cell that takes longer is an error; None for no limit: on a GPU a cell may train for hours.
    """
    executed = folder / path
    executed.parent.mkdir(parents=True, exist_ok=True)
    with _locked(executed.with_suffix(".lock")):
        return _cached(path, root, executed, parameters) or _run(path, root, executed, parameters, cell_seconds)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes out; a process that dies lets the next one in."""
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _cached(path: Path, root: Path, executed: Path, parameters: dict[str, Any]) -> Run | None:
    record = executed.with_suffix(".json")
    if not (executed.is_file() and record.is_file()):
        return None
    stored = json.loads(record.read_text())
    return Run(path, executed, True, stored["seconds"]) if stored["key"] == _key(path, root, parameters) else None


def _run(path: Path, root: Path, executed: Path, parameters: dict[str, Any], cell_seconds: int | None) -> Run:
    record = executed.with_suffix(".json")
    key = _key(path, root, parameters)  # of the files as they are now: whoever changes one meanwhile runs it again
    record.unlink(missing_ok=True)
    peak = _PeakMemory()
    began = time.perf_counter()
    try:
        with peak:
            papermill.execute_notebook(
                _with_last_cell(root / path),
                executed,
                parameters,
                cwd=(root / path).parent,
                progress_bar=False,
                kernel_name="python3",
                execution_timeout=cell_seconds,
                shutdown_kernel="immediate",  # after the last cell; seconds go by while torch and mxnet take leave
                extra_arguments=["--log-level=ERROR"],  # no warning about the local transport
            )
    except papermill.PapermillExecutionError as error:
        message = f"cell {error.exec_count}: {error.ename}: {error.evalue}".splitlines()[0]
        return Run(path, executed, False, time.perf_counter() - began, message)
    except CellTimeoutError as error:
        return Run(path, executed, False, time.perf_counter() - began, " ".join(str(error).split()))
    seconds = time.perf_counter() - began
    _finish(executed, root, seconds, peak.gibibytes)
    record.write_text(json.dumps({"key": key, "seconds": seconds}))
    return Run(path, executed, False, seconds)


def _key(path: Path, root: Path, parameters: dict[str, Any]) -> str:
    """Digest everything that a run depends on."""
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    digest.update(os.environ.get("D2LBERT_DATA", "").encode())
    for dependency in [root / path, *_dependencies(root)]:
        digest.update(str(dependency.relative_to(root)).encode())
        digest.update(dependency.read_bytes())
    return digest.hexdigest()


def _dependencies(root: Path) -> Iterator[Path]:
    patterns = ["d2lbert/**/*.py", "data/**/*", "results/**/*.json", "requirements/*.txt", "tools/run_notebook.py"]
    for pattern in patterns:
        yield from sorted(found for found in root.glob(pattern) if found.is_file())


def _with_last_cell(path: Path) -> nbformat.NotebookNode:
    """Read a notebook, with one more cell that tells which data sets were read; ``_finish`` takes it away."""
    notebook = nbformat.read(path, as_version=4)
    source = "import json as _json\nfrom d2lbert.data import opened as _opened\nprint(_json.dumps(_opened()))"
    notebook.cells.append(nbformat.v4.new_code_cell(source))
    return notebook


def _finish(executed: Path, root: Path, seconds: float, memory: float) -> None:
    """Drop what a reader need not see, and say under the title how the page was run."""
    notebook = nbformat.read(executed, as_version=4)
    printed = [output.text for output in notebook.cells.pop().outputs if output.get("name") == "stdout"]
    opened = json.loads("".join(printed))
    # papermill adds a cell with the injected parameters; it repeats the cell above it.
    notebook.cells = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    band = nbformat.v4.new_markdown_cell(_band(root, seconds, memory, opened))
    notebook.cells.insert(1, band)
    nbformat.write(notebook, executed)


def _band(root: Path, seconds: float, memory: float, opened: dict[str, str]) -> str:
    versions = ", ".join(f"{name} {_version(name)}" for name in ("torch", "mxnet", "numpy", "d2lbert"))
    when = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    data = ", ".join(f"{name} ({kind})" for name, kind in sorted(opened.items())) or "none"
    return (
        ":::{admonition} How this page was run\n:class: run-band\n"
        f"On {when}, commit {_commit(root)}, in **{seconds:.0f} s** with at most **{memory:.1f} GiB** of memory, on "
        f"{psutil.cpu_count()} cores of {_processor()}, accelerator: {_accelerator()}. "
        f"Python {platform.python_version()}, {versions}. Data: {data}.\n:::"
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit(root: Path) -> str:
    run = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.is_file() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _accelerator() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


class _PeakMemory:
    """Watch the resident memory of all child processes together, while the body runs."""

    def __enter__(self) -> _PeakMemory:
        self.gibibytes = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_SAMPLING_SECONDS):
            total = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.gibibytes = max(self.gibibytes, total / 2**30)
