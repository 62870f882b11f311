"""Bugs that are planted in a copy of the package, one at a time, to see whether its tests notice.

``benchmarks/tests/planted_bugs.toml`` lists them, each as a piece of a file and what takes its place. The working tree
is never touched. A bug that no test sees shows where a test is missing.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "benchmarks" / "tests" / "planted_bugs.toml"
LIMIT = 600  # seconds for the tests of one bug: one that never ends is killed, too
# What would take minutes in all to import anew for each bug. Each run is a fork of one process that has imported them.
PRELOADED = ["torch", "torch.distributed.checkpoint", "torch.distributed.fsdp", "transformers", "tokenizers"]
PRELOADED += ["scipy.stats", "sklearn.metrics", "hypothesis", "pytest"]
_COPIED, _LINKED = ("d2lbert", "tests"), ("benchmarks", "data", "tools", "results", "pyproject.toml")


@dataclass(frozen=True)
class Bug:
    """One planted bug.

    Fields:
        name: what is wrong, in a few words.
        topic: the part of the package, such as ``losses``.
        file: of the package, below ``d2lbert/``.
        old: the text in that file, which occurs once.
        new: what takes its place.
        tests: below ``tests/``; by default those of the file's own module.
        why: of one that no test can see, the reason; otherwise empty.
    """

    name: str
    topic: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """How the tests of a bug ended.

    Fields:
        status: ``passed``, ``failed`` or ``no end``.
        by: the first test that failed; empty where none did.
        seconds: of the run.
    """

    status: str
    by: str
    seconds: float


def read_bugs(table: Path = TABLE) -> list[Bug]:
    """Return the bugs of a table."""
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["bug"]
    return [Bug(**{**row, "tests": tuple(row.get("tests", ()))}) for row in rows]


def own_tests(bug: Bug, root: Path = ROOT) -> tuple[str, ...]:
    """Return the test files that a bug is tried on, below ``tests/``: those named, or those of its own module."""
    if bug.tests:
        return bug.tests
    module = Path(bug.file)
    folder = root / "tests" / module.parent
    found = [folder / f"test_{module.stem}.py", *sorted(folder.glob(f"test_{module.stem}_*.py"))]
    return tuple(str(path.relative_to(root / "tests")) for path in found if path.is_file())


def problems(bug: Bug, root: Path = ROOT) -> list[str]:
    """Return why a bug cannot be planted any more."""
    path = root / "d2lbert" / bug.file
    if not path.is_file():
        return [f"{bug.name}: there is no {bug.file}"]
    source = path.read_text(encoding="utf-8")
    found = [] if source.count(bug.old) == 1 else [f"{bug.name}: its old text occurs {source.count(bug.old)} times"]
    tests = own_tests(bug, root)
    found += [f"{bug.name}: there is no test {test}" for test in tests if not (root / "tests" / test).is_file()]
    if not tests:
        found.append(f"{bug.name}: {bug.file} has no tests of its own, name some")
    if not found:
        try:
            compile(source.replace(bug.old, bug.new), bug.file, "exec")
        except SyntaxError as error:
            found.append(f"{bug.name}: what is planted is no Python ({error})")
    return found


def fingerprint(bug: Bug | None, tests: Sequence[str], root: Path = ROOT) -> str:
    """Return a digest of all that decides how tests end: the bug, the package, the tests, and what tests share."""
    shared = [path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_")]
    files = [*(root / "d2lbert").rglob("*.py"), *shared, *(root / "tests" / test for test in tests)]
    digest = hashlib.sha256(repr(bug and (bug.file, bug.old, bug.new)).encode())
    for path in sorted(set(files)):
        digest.update(f"{path.relative_to(root)}".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@contextlib.contextmanager
def planted(bug: Bug | None, root: Path = ROOT) -> Iterator[Path]:
    """Yield a copy of the checkout with a bug in it, or without any; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="d2lbert-bug-") as folder:
        copy = Path(folder)
        for name in _COPIED:
            shutil.copytree(root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in _LINKED:
            (copy / name).symlink_to(root / name)
        if bug is not None:
            path = copy / "d2lbert" / bug.file
            path.write_text(path.read_text(encoding="utf-8").replace(bug.old, bug.new), encoding="utf-8")
        yield copy


def try_bug(bug: Bug | None, tests: Sequence[str]) -> Outcome:
    """Run tests on a copy of the checkout with a bug, or without any, up to the first failure."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    began = time.perf_counter()
    with planted(bug) as copy:
        report = copy / "report.txt"
        process = context.Process(target=_run_tests, args=(str(copy), [str(copy / "tests" / test) for test in tests]))
        process.start()
        process.join(LIMIT)
        if process.is_alive():
            process.kill()
            process.join()
            return Outcome("no end", "", time.perf_counter() - began)
        text = report.read_text(encoding="utf-8", errors="replace") if report.is_file() else ""
    seconds = time.perf_counter() - began
    if process.exitcode == 0:
        return Outcome("passed", "", seconds)
    if process.exitcode not in (1, 2):  # pytest: a test failed; a test file could not be imported
        raise RuntimeError(f"{bug.name if bug else 'baseline'}: pytest ended with {process.exitcode}:\n{text[-2000:]}")
    return Outcome("failed", _first_failure(text), seconds)


def _first_failure(report: str) -> str:
    """Return the name of the first test that failed, without its parameters and its folder."""
    for line in report.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            words = line.split()
            return words[1].partition("[")[0].rpartition("tests/")[2] if len(words) > 1 else ""
    return ""


def _run_tests(root: str, tests: list[str]) -> None:
    """Run pytest in this process, on the package below ``root`` and nowhere else."""
    for name in [name for name in sys.modules if name.partition(".")[0] in ("d2lbert", "benchmarks")]:
        del sys.modules[name]
    sys.dont_write_bytecode = True
    sys.path[:] = [root, *(path for path in sys.path if not (Path(path) / "d2lbert").is_dir())]
    os.environ["PYTHONPATH"] = root
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ.pop("D2LBERT_DATA", None)
    os.chdir(root)
    with open("report.txt", "w", encoding="utf-8") as report:
        os.dup2(report.fileno(), 1)
        os.dup2(report.fileno(), 2)
    import pytest

    # Plugins that no test here needs take longer to import than most tests take to run.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    plugins = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
    status = pytest.main(["-x", "-q", "--tb=no", "-m", "not slow", "--hypothesis-seed=0", *plugins, *tests])
    import d2lbert

    if not str(d2lbert.__file__).startswith(root):
        print(f"the tests ran on {d2lbert.__file__}")
        status = 70
    sys.stdout.flush()
    os._exit(int(status))
