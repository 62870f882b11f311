"""Checkpoints that survive a crash: each a folder, written under another name, flushed, renamed, with checksums.

A checkpoint is there whole or not at all. Its manifest holds the sha256 of every file, for a file may be damaged later,
and the formats themselves do not notice a changed number. When the newest is damaged, the one before takes its place.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from d2lbert.errors import UserError
from d2lbert.storage.files import read_json, sha256_of, write_text

MANIFEST = "manifest.json"
_PREFIX = "checkpoint-"
_UNFINISHED = ".checkpoint-"


class DamagedCheckpointWarning(UserWarning):
    """A checkpoint was passed over."""


def save(folder: Path, step: int, write: Callable[[Path], None], keep: int) -> Path:
    """Write the checkpoint of a step, then remove all but the newest ``keep``.

    Args:
        folder: of all checkpoints of a run.
        write: fills the folder that it is given, and folders in it.

    Returns:
        The folder of the new checkpoint, named after the step.

    Raises:
        UserError: the disk is full or the folder cannot be written. The older checkpoints are as they were.
    """
    target = folder / f"{_PREFIX}{step:08}"
    temporary: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder))
        write(temporary)
        files = sorted(path for path in temporary.rglob("*") if path.is_file())
        digests = {path.relative_to(temporary).as_posix(): sha256_of(path) for path in files}
        write_text(temporary / MANIFEST, json.dumps({"step": step, "sha256": digests}, indent=1) + "\n")
        for path in [*temporary.rglob("*"), temporary]:
            _flush(path)
        temporary.chmod(0o755)
        if target.exists():  # a damaged one that the run had to pass over
            shutil.rmtree(target)
        temporary.rename(target)
        _flush(folder)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {target}: {reason}; free space, then go on with --resume") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)  # it is gone where the renaming succeeded
    for path in _all(folder)[keep:]:
        shutil.rmtree(path)
    return target


def newest(folder: Path) -> Path | None:
    """Return the newest whole checkpoint, or None. A damaged one is passed over with a warning.

    Leftovers of a crash in the middle of writing are removed.
    """
    for path in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in _all(folder):
        problem = _problem(path)
        if problem is None:
            return path
        warnings.warn(f"{path.name} is damaged ({problem}): going back to the one before", DamagedCheckpointWarning, 2)
    return None


def begun(folder: Path) -> bool:
    """Tell whether a run has left any checkpoint, whole or damaged."""
    return bool(_all(folder))


def _all(folder: Path) -> list[Path]:
    """Return the checkpoints, newest first."""
    return sorted(folder.glob(f"{_PREFIX}*"), reverse=True)


def _problem(path: Path) -> str | None:
    try:
        digests = read_json(path / MANIFEST)["sha256"]
        for name, digest in digests.items():
            if not (path / name).is_file():
                return f"no {name}"
            if sha256_of(path / name) != digest:
                return f"wrong sha256 of {name}"
    except (UserError, KeyError, AttributeError, OSError):
        return f"no readable {MANIFEST}"
    return None


def _flush(path: Path) -> None:
    """Make sure that a file, or the list of files of a folder, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
