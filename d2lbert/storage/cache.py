"""A folder of the cache that several processes may fill: one at a time, and without what killed ones left behind."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

UNFINISHED = ".download-"  # a folder of this prefix holds a download that goes on, or was killed
PATIENCE = 3.0  # seconds to wait in silence for another process

# What tempfile.mkstemp makes of the prefix that d2lbert.storage.files.atomic gives it.
_HALF_WRITTEN = re.compile(r"\..+\.[a-z0-9_]{8}")


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder of the cache: other processes wait, and say so. Leftovers of killed ones are removed.

    Without such locks (on Windows, on some network drives, in a cache that cannot be written), go on unlocked: a single
    process needs none, and among several, one whose file has just been removed ends in an error.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(folder.with_name(f"{folder.name}.lock").open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _wait(lock, folder)
            _remove_leftovers(folder)
        yield


def _wait(lock: IO[str], folder: Path) -> None:
    """Wait for the lock; after a few seconds say for what."""
    import fcntl

    notice = f"d2lbert: waiting for another process, which fills {folder}"
    timer = threading.Timer(PATIENCE, lambda: print(notice, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    finally:
        timer.cancel()


def _remove_leftovers(folder: Path) -> None:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name.startswith(UNFINISHED):
            shutil.rmtree(path, ignore_errors=True)
        elif _HALF_WRITTEN.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)
