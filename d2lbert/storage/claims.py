"""The folder that a run writes: it belongs to one run at a time, and what others have put there is never touched.

The lock lies beside the folder. So a new folder need not exist before there is something to put into it, an empty one
stays empty, and a finished model holds nothing but the model. Only where nothing can be written beside it (a mounted
volume in a system that is read-only otherwise), the lock lies inside. It is removed with the end of the run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from d2lbert.errors import UserError
from d2lbert.storage.files import (
    flush,
    is_unfinished,
    remove_unfinished,
    unfinished_folder,
    usual_mode,
    writable_folder,
)
from d2lbert.storage.locks import locked

_LOCK_INSIDE = ".lock"


@contextlib.contextmanager
def held(out: str | Path) -> Iterator[Path]:
    """Keep all other runs out of a folder, and yield its absolute path. The folder need not exist.

    Raises:
        UserError: another run holds it, it is a file, or its place cannot be written.
    """
    folder = _absolute(Path(out))
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(_lock_of(folder), wait=False))
        except BlockingIOError:
            raise UserError(f"another run writes into --out {folder}: wait for its end, or choose another") from None
        yield folder


@contextlib.contextmanager
def claimed(out: str | Path) -> Iterator[Path]:
    """Hold a folder that must be new or empty, and yield its absolute path. It is not made yet: see :func:`publish`.

    Raises:
        UserError: as in :func:`held`; or it is not empty, or cannot be written.
    """
    with held(out) as folder:
        if contents(folder):
            raise UserError(f"--out {folder} is not empty: choose a new folder, so that nothing is overwritten")
        try:
            remove_unfinished(folder)
            remove_unfinished(folder.parent, folder.name)
            _staging(folder).rmdir()  # as long a name as any that will be needed
        except OSError as error:
            raise _unwritable(folder, error) from None
        yield folder


def contents(folder: Path) -> list[Path]:
    """Return what is in a folder, in the order of its names, without a lock and what a killed run was writing.

    Raises:
        UserError: it cannot be read.
    """
    try:
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise UserError(f"cannot read folder {folder}: {error.strerror}; choose another --out") from None
    return [path for path in paths if path.name != _LOCK_INSIDE and not is_unfinished(path)]


def publish(folder: Path, write: Callable[[Path], None]) -> None:
    """Put a result into a folder that this process has :func:`claimed`, as a whole, if that is still new or empty.

    Args:
        folder: where the result will be.
        write: a function that writes the files of the result into the folder that it gets. ``config.json`` is the last
            that appears in ``folder``: with it, a folder is a model.

    Raises:
        UserError: somebody has filled the folder meanwhile, or it cannot be written; the message says where the result
            is. Or ``write`` failed; then nothing is left.
    """
    try:
        staging = _staging(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None
    try:
        write(staging)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    try:
        _move(staging, folder)
    except OSError as error:
        reason = error.strerror
    else:
        return
    raise UserError(f"cannot write {folder}: {reason}; the trained model is in {_keep(staging, folder)}")


def _absolute(out: Path) -> Path:
    """Return the absolute path of ``--out``. So two names of one folder have one lock, and "." has a name."""
    try:
        folder = out.resolve()
        if folder.exists() and not folder.is_dir():
            raise UserError(f"--out {folder} is a file: choose a new folder")
        exists = folder.is_dir()
    except (OSError, RuntimeError) as error:  # RuntimeError: a symbolic link that leads to itself
        raise UserError(f"cannot write to folder {out}: {_reason(error)}; choose another --out") from None
    writable_folder(folder if exists else folder.parent)
    return folder


def _reason(error: Exception) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


def _lock_of(folder: Path) -> Path:
    if folder.name and os.access(folder.parent, os.W_OK):
        return folder.with_name(f".{folder.name}.lock")
    return folder / _LOCK_INSIDE


def _staging(folder: Path) -> Path:
    """Make the folder in which a result is written: inside an existing one, which may be another disk, else beside."""
    if folder.is_dir() and not contents(folder):
        return unfinished_folder(folder, folder.name)
    return unfinished_folder(folder.parent, folder.name)


def _move(staging: Path, folder: Path) -> None:
    """Move a finished result to its place. An existing folder is filled, not replaced: it may be a mounted volume.

    Raises:
        OSError: it is not empty any more, is a file, or cannot be written.
    """
    if staging.parent == folder:
        if found := contents(folder):
            raise OSError(0, f"it is not empty any more ({found[0].name})")
        for path in sorted(staging.iterdir(), reverse=True):  # config.json last
            path.rename(folder / path.name)
        staging.rmdir()
    else:
        staging.chmod(usual_mode(0o777))
        staging.rename(folder)  # the system refuses to replace a file, or a folder that is not empty
    flush(folder)
    flush(folder.parent)


def _keep(staging: Path, folder: Path) -> Path:
    """Give a finished result that could not be moved a name that nobody takes for something unfinished."""
    kept = staging.with_name(f"{folder.name}{staging.name.removeprefix(f'.{folder.name}').removesuffix('.unfinished')}")
    try:
        staging.chmod(usual_mode(0o777))
        staging.rename(kept)
    except OSError:
        return staging
    return kept


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(f"cannot write to folder {folder}: {error.strerror}; choose another --out")
