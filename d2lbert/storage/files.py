"""Read and write files: nothing is ever left half-written, and a digest tells whether a file is whole."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError


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
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        # mkstemp makes files private; give the result the mode that an ordinary open() would have given it.
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
        temporary = None
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror or error}; free space or choose another path"
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
