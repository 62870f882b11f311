"""Checkpoints that survive a crash: each is a folder, written under a temporary name, flushed, and then renamed.

So a checkpoint is complete or does not exist. Its manifest holds the sha256 of every file: a file may be damaged later,
and the formats themselves do not notice a changed number. If the newest checkpoint is damaged, the one before is used.
An old one is renamed before it is deleted, so half of one is never taken for a whole one.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import PickleError

from d2lbert.errors import UserError
from d2lbert.storage.files import flush, sha256_of, usual_mode, write_text

MANIFEST = "manifest.json"
_PREFIX = "checkpoint-"
_UNFINISHED = ".checkpoint-"  # being written, or being deleted
_REPLACED = ".replaced-"  # before the name of one that another of the same step replaces

# Checkpoints that this process has written or verified -> what the system said of their files then. To choose which old
# ones to delete, their digests are not computed again at every step.
_known: dict[Path, list[tuple[str, int, int, int]]] = {}


class DamagedCheckpointWarning(UserWarning):
    """A damaged checkpoint was skipped."""


class _DamageError(Exception):
    """A checkpoint is damaged; the message says how."""


def save(folder: Path, step: int, write: Callable[[Path], None], keep: int) -> Path:
    """Write the checkpoint of a step, then remove old ones: the newest ``keep`` that are whole stay, and this one.

    Damaged ones do not count, and are removed.

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
            flush(path)
        temporary.chmod(usual_mode(0o777))
        _rename(temporary, target)
        flush(folder)
        _known[target] = _signature(target)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {target}: {reason}; free space, then go on with --resume") from None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)  # it no longer exists if the renaming succeeded
    _remove_old(folder, target, keep)
    return target


def newest(folder: Path) -> Path | None:
    """Return the newest checkpoint that is whole, or None if there is none. Damaged ones are skipped with a warning.

    What a crash in the middle of writing or deleting left behind is removed.

    Raises:
        UserError: there are checkpoints, and all are damaged.
    """
    _tidy(folder)
    for path in _all(folder):
        try:
            signature = _signature(path)
            _verify(path)
        except (_DamageError, OSError) as problem:
            advice = "going back to the one before"
            warnings.warn(f"{path.name} is damaged ({problem}): {advice}", DamagedCheckpointWarning, 2)
        else:
            _known[path] = signature
            return path
    if _all(folder):
        raise UserError(f"every checkpoint in {folder} is damaged: remove {folder} to start anew")
    return None


def begun(folder: Path) -> bool:
    """Whether a run has left any checkpoint, whole or damaged."""
    return bool(_all(folder) or list(folder.glob(f"{_REPLACED}{_PREFIX}*")))


def remove_all(folder: Path) -> None:
    """Remove the checkpoints of a run that has ended, and the folder where nothing else is in it.

    What cannot be removed stays, without a word: the run has its result.
    """
    _tidy(folder)
    with contextlib.suppress(OSError):
        for path in _all(folder):
            _remove(path)
        folder.rmdir()


@contextlib.contextmanager
def restoring(checkpoint: Path) -> Iterator[None]:
    """In this context, content that no run can have written ends in one line: its digests fit, but it was made up.

    Raises:
        UserError: anything in the context failed over what the files hold.
    """
    try:
        yield
    except (AttributeError, EOFError, LookupError, OSError, PickleError, RuntimeError, TypeError, ValueError) as error:
        kind = type(error).__name__
        raise UserError(
            f"{checkpoint} does not hold the state of this run ({kind}): remove it to go on from the one before"
        ) from error


def _all(folder: Path) -> list[Path]:
    """Return the checkpoints, newest first."""
    found = [path for path in folder.glob(f"{_PREFIX}*") if re.fullmatch(rf"{_PREFIX}\d+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix(_PREFIX)), reverse=True)


def _rename(source: Path, target: Path) -> None:
    """Give a finished checkpoint its name. One that has it already steps aside, and comes back if that fails."""
    if not target.exists():
        source.rename(target)
        return
    aside = target.with_name(f"{_REPLACED}{target.name}")
    shutil.rmtree(aside, ignore_errors=True)
    target.rename(aside)
    try:
        source.rename(target)
    except BaseException:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _tidy(folder: Path) -> None:
    """Remove what a crash left unfinished. A checkpoint that was stepping aside for another comes back."""
    for aside in folder.glob(f"{_REPLACED}{_PREFIX}*"):
        target = aside.with_name(aside.name.removeprefix(_REPLACED))
        if target.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):  # another process of this run was faster
                aside.rename(target)
    for path in folder.glob(f"{_UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)


def _remove_old(folder: Path, new: Path, keep: int) -> None:
    """Remove all checkpoints but the new one and the newest ``keep`` that are whole. What fails is only warned of."""
    kept = 0
    for path in _all(folder):
        try:
            whole = _is_whole(path)
            kept += whole
            if path == new or (whole and kept <= keep):
                continue
            _remove(path)
        except OSError as error:
            reason = error.strerror or error
            warnings.warn(f"the old checkpoint {path} stays ({reason}): mend or remove it by hand", stacklevel=3)


def _remove(path: Path) -> None:
    """Rename a checkpoint, and delete it then.

    Raises:
        OSError: it cannot be renamed, or not be deleted.
    """
    doomed = path.with_name(f".{path.name}")
    shutil.rmtree(doomed, ignore_errors=True)
    path.rename(doomed)
    _known.pop(path, None)
    shutil.rmtree(doomed)


def _is_whole(path: Path) -> bool:
    """Whether a checkpoint is whole. One whose files have not changed since this process verified it is.

    Raises:
        OSError: it cannot be read now, so nobody knows.
    """
    signature = _signature(path)
    if _known.get(path) != signature:
        try:
            _verify(path)
        except _DamageError:
            return False
        _known[path] = signature
    return True


def _signature(path: Path) -> list[tuple[str, int, int, int]]:
    """Return name, inode, size and time of change of every file."""
    status = [(str(file.relative_to(path)), file.stat()) for file in sorted(path.rglob("*"))]
    return [(name, found.st_ino, found.st_size, found.st_mtime_ns) for name, found in status]


def _verify(path: Path) -> None:
    """Compare the files of a checkpoint with its manifest.

    Raises:
        _DamageError: they differ, or there is no manifest.
        OSError: a file cannot be read.
    """
    try:
        digests = json.loads((path / MANIFEST).read_bytes())["sha256"]
        names = {name: path / name for name in digests}
    except (FileNotFoundError, NotADirectoryError, KeyError, RecursionError, TypeError, ValueError):
        raise _DamageError(f"no readable {MANIFEST}") from None
    for name, file in names.items():
        if not file.is_file():
            raise _DamageError(f"no {name}")
        if sha256_of(file) != digests[name]:
            raise _DamageError(f"wrong sha256 of {name}")
