"""Checkpoints on a disk that fails at any moment: whatever happens, the last good one or the new one is there."""

from __future__ import annotations

import io
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.storage import checkpoints

# What asks the disk for something; reading is among it, for the digests.
OPERATIONS = ("chmod", "fsync", "mkdir", "open", "rename", "replace", "rmdir", "unlink")
KEEP = 2


class PowerCutError(BaseException):
    """The process is no more: it cannot even tidy up."""


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is forced to the disk, which takes most of the time and which no test could see."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@contextmanager
def failing_disk(first: int, last: int, error: Callable[[], BaseException]) -> Iterator[list[str]]:
    """In this context the operations of the numbers first to last, counted from 0, fail. Yields their names so far."""
    done: list[str] = []

    def failing(name: str, real: Any) -> Any:
        def operation(*arguments: Any, **options: Any) -> Any:
            done.append(name)
            if first <= len(done) - 1 <= last:
                raise error()
            return real(*arguments, **options)

        return operation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", failing("io.open", io.open))
        for name in OPERATIONS:
            patch.setattr(os, name, failing(name, getattr(os, name)))
        yield done


def _write(content: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "below").mkdir()
        for name in ("state", "below/weights"):
            (folder / name).write_text(content)

    return write


def _whole(folder: Path) -> dict[int, str]:
    """The content of every whole checkpoint, by its step, as another process finds it."""
    found = {}
    for path in checkpoints._all(folder):
        try:
            checkpoints._verify(path)
        except checkpoints._DamageError:
            continue
        found[int(path.name.partition("-")[2])] = (path / "state").read_text()
    return found


def _full() -> OSError:
    return OSError(28, "No space left on device")


FAULTS = {
    "one operation fails": (0, _full),
    "the disk stays full": (10**6, _full),
    "power cut": (10**6, PowerCutError),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("step", "damaged"), [(16, []), (12, []), (12, [12]), (9, [8, 12])])
def test_after_any_fault_the_last_good_one_is_there(tmp_path: Path, fault: str, step: int, damaged: list[int]) -> None:
    """A new step; the newest once more, whole or damaged; one between, after going back. A fault at every operation."""
    first = tmp_path / "first"
    for number in (4, 8, 12):
        checkpoints.save(first, number, _write(f"old {number}"), keep=3)
    for number in damaged:
        (first / f"checkpoint-{number:08}" / "state").write_text("damaged")
    before = _whole(first)
    length, error = FAULTS[fault]
    moment, saved = 0, False
    while not saved:
        folder = tmp_path / f"run {moment}"
        shutil.copytree(first, folder)
        saved = _save_with_fault(folder, step, moment, moment + length, error)
        _check(folder, before, step, saved)
        moment += 1
    assert moment > 30


def _save_with_fault(folder: Path, step: int, first: int, last: int, error: Callable[[], BaseException]) -> bool:
    """Save a checkpoint; return whether that came to its end before the fault."""
    with failing_disk(first, last, error) as done:
        try:
            path = checkpoints.save(folder, step, _write(f"new {step}"), KEEP)
        except (UserError, PowerCutError):
            return False
    assert path.is_dir()
    return len(done) <= first


def _check(folder: Path, before: dict[int, str], step: int, saved: bool) -> None:
    checkpoints._known.clear()  # another process goes on
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", checkpoints.DamagedCheckpointWarning)
        newest = checkpoints.newest(folder)
    assert newest is not None
    after = _whole(folder)
    is_new = after.get(step) == f"new {step}"
    assert is_new or not saved
    possible = {**before, step: f"new {step}"} if is_new else before
    assert after.items() <= possible.items()
    kept = sorted(possible)[-KEEP:] if is_new else sorted(before)
    assert set(kept) <= set(after)
    assert (newest / "state").read_text() == possible[max(possible)]
    checkpoints.save(folder, 20, _write("next"), KEEP)
    assert _whole(folder)[20] == "next"
    assert not [path.name for path in folder.iterdir() if not path.name.startswith("checkpoint-")]
