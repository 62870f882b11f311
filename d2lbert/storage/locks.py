"""Locks between processes. The system holds them, so the end of a process frees its locks, however it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a name: no other process has it at the same time.

    Without locks (on Windows, on some network drives, in a folder that cannot be written), go on unlocked: a single
    process needs none.

    Args:
        path: a file that is there only as long as somebody holds the lock; its folder must exist. What a killed process
            leaves of it locks nothing.
        wait: wait until the lock is free.

    Yields:
        Whether the lock is held: False without locks.

    Raises:
        BlockingIOError: another process holds the lock, and ``wait`` is False.
    """
    stream = _acquire(path, wait)
    try:
        yield stream is not None
    finally:
        if stream is not None:
            with contextlib.suppress(OSError):
                path.unlink()  # while the lock is held, so the file is still this one
            stream.close()


def _acquire(path: Path, wait: bool) -> IO[str] | None:
    """Return the open file that holds the lock, or None where there are no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    mode = fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        try:
            stream = path.open("a")
        except OSError:
            return None
        try:
            fcntl.flock(stream, mode)
        except OSError as error:
            stream.close()
            if isinstance(error, BlockingIOError):
                raise
            return None
        if _has_name(stream, path):
            return stream
        stream.close()  # the one before removed the file between our opening it and locking it: try the new one


def _has_name(stream: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except OSError:
        return False
