"""Checkpoints that survive a crash: each is a folder, written under a temporary name, flushed, and then renamed.

So a checkpoint is complete or does not exist. Its manifest holds the sha256 of every file: a file may be damaged later,
and the formats themselves do not notice a changed number. If the newest checkpoint is damaged, the one before is used.
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
    """A damaged checkpoint was skipped."""


def save(folder: Path, step: int, write: Callable[[Path], None], keep: int) -> Path:
    """Write the checkpoint of a step, then remove all but the newest ``keep`` checkpoints.

    Args:
        folder: where all checkpoints of a run are.
        step: the number of the step; it names the checkpoint.
        write: a function that writes the files of the checkpoint into the folder that it gets.
        keep: how many checkpoints stay.

    Returns:
        The folder of the new checkpoint.

    Raises:
        UserError: the disk is full or the folder cannot be written. The older checkpoints are unchanged.
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
        if target.exists():  # a damaged one that the run had to skip
            shutil.rmtree(target)
        temporary.rename(target)
        _flush(folder)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {target}: {reason}; free space, then go on with --resume") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)  # it no longer exists if the renaming succeeded
    for path in _all(folder)[keep:]:
        shutil.rmtree(path)
    return target


def newest(folder: Path) -> Path | None:
    """Return the newest checkpoint that is whole, or None. Damaged ones are skipped with a warning.

    What a crash in the middle of writing left behind is removed.
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
    """Whether a run has left any checkpoint, whole or damaged."""
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
    """Force a file, or the directory entry of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
