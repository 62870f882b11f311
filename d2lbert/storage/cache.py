"""A folder of the cache that several processes may fill: one at a time, and without what killed ones left behind."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from d2lbert.storage import locks
from d2lbert.storage.files import remove_unfinished

UNFINISHED = ".download-"  # a folder of this prefix holds a download that goes on, or was killed
PATIENCE = 3.0  # seconds to wait in silence for another process


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder of the cache: other processes wait, and say so. Leftovers of killed ones are removed.

    Without locks (see :func:`d2lbert.storage.locks.locked`), one of several processes whose file has just been removed
    ends in an error.
    """
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
    name = folder.with_name(f"{folder.name}.lock")
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(locks.locked(name, wait=False))
        except BlockingIOError:
            with _notice(folder):
                held = stack.enter_context(locks.locked(name))
        if held:
            _remove_leftovers(folder)
        yield


@contextlib.contextmanager
def _notice(folder: Path) -> Iterator[None]:
    """In this context, after a few seconds, say what this process waits for."""
    text = f"d2lbert: waiting for another process, which fills {folder}"
    timer = threading.Timer(PATIENCE, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _remove_leftovers(folder: Path) -> None:
    for path in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(path, ignore_errors=True)
    remove_unfinished(folder)
