"""Read and write files: nothing is ever left half-written, and a digest tells whether a file is whole."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError

_UNFINISHED = ".unfinished"


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success flush it to disk and rename it to ``path``.

    If the body or the disk fails, the temporary file is removed and an older ``path`` is left as it was.

    Raises:
        UserError: the folder cannot be written or the disk is full.
    """
    target = Path(path)
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(_UNFINISHED, f".{target.name}.", target.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        # mkstemp makes files private; give the result the mode that an ordinary open() would have given it.
        temporary.chmod(usual_mode(0o666))
        temporary.replace(target)
        temporary = None
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror or error}; free space or choose another path"
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def usual_mode(mode: int) -> int:
    """Return a mode such as 0o666 without the permissions that the user's mask takes away."""
    mask = os.umask(0)
    os.umask(mask)
    return mode & ~mask


def unfinished_folder(folder: Path, name: str) -> Path:
    """Make a folder inside ``folder`` for what will be called ``name`` once it is whole.

    Raises:
        OSError: it cannot be made.
    """
    return Path(tempfile.mkdtemp(_UNFINISHED, f".{name}.", folder))


def remove_unfinished(folder: Path, name: str = "") -> None:
    """Remove what a killed process was writing: files of :func:`atomic` and folders of :func:`unfinished_folder`.

    Call it only where no other process can be writing: under a lock.

    Args:
        folder: where they are; it need not exist.
        name: of what they would have become; by default any.
    """
    if folder.is_dir():
        for path in folder.iterdir():
            if is_unfinished(path, name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def is_unfinished(path: Path, name: str = "") -> bool:
    """Whether a path has the name of something that is being written; ``name`` as in :func:`remove_unfinished`."""
    finished = re.escape(name) if name else ".+"
    return re.fullmatch(rf"\.{finished}\.[a-z0-9_]+{re.escape(_UNFINISHED)}", path.name) is not None


def flush(path: Path) -> None:
    """Force a file, or the directory entries of a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """Return the digest of a file as it is now, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def remembered_sha256_of(path: Path) -> str:
    """Return the digest of a file; a process reads it again only after its modification time has changed.

    It is for files that are verified at every use. Damage that leaves the modification time as it was goes unnoticed.
    """
    return _sha256_at(path, path.stat().st_mtime_ns)


@functools.cache
def _sha256_at(path: Path, modified: int) -> str:
    return sha256_of(path)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def writable_folder(path: str | Path) -> Path:
    """Create a folder and check that it can be written, before hours of work end in an error.

    Raises:
        UserError: the folder cannot be made or written.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"\0")
    except OSError as error:
        raise UserError(f"cannot write to folder {folder}: {error.strerror}; choose another --out") from None
    return folder


def read_json(path: str | Path) -> dict[str, Any]:
    """Read one JSON object from a file.

    Raises:
        UserError: the file cannot be read, is not valid JSON, or does not hold an object.
    """
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check the path") from None
    except (ValueError, RecursionError) as error:  # a RecursionError: brackets within brackets, thousands deep
        raise UserError(f"{path} is not valid JSON: {error}; restore the file") from None
    if not isinstance(values, dict):
        raise UserError(f"{path} holds a {type(values).__name__}, not a JSON object; restore the file")
    return values
