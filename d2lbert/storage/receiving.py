"""Receive a file so that every download ends: not larger than it may be, and not slower than a trickle."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Bytes a second on average, below which a download is given up, and the seconds before that is asked.
SLOWEST = 10_000
GRACE = 60.0
_LOOK_EVERY = 0.5  # seconds


class DownloadError(Exception):
    """The file could not be downloaded. The message is a clause without a full stop.

    Fields:
        transient: whether another attempt may succeed.
        wait: seconds that the server asks to wait before it; 0 where it asks for none.
        missing: whether the server answered that it has no such public file.
    """

    def __init__(self, reason: str, transient: bool = False, wait: float = 0, missing: bool = False) -> None:
        super().__init__(reason)
        self.transient, self.wait, self.missing = transient, wait, missing


class GrowingFile(io.BufferedWriter):
    """A file that only grows, up to a limit.

    ``huggingface_hub`` would start over again and again with a server that breaks off and cannot resume.

    Args:
        path: the file.
        server: its name, for messages.
        limit: the most bytes that the file may have.
        told: the size that the server stated; 0 where it stated none.
    """

    def __init__(self, path: Path, server: str, limit: int, told: int = 0) -> None:
        super().__init__(io.FileIO(path, "w"))
        self.received = 0
        self._server, self._limit, self._told = server, limit, told

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Append bytes.

        Raises:
            DownloadError: they are too many.
        """
        self.received += len(data)
        if self._told and self.received > self._told:
            raise DownloadError(f"{self._server} sent more than the {self._told} bytes that it told of")
        if self.received > self._limit:
            raise DownloadError(f"{self._server} sent more than {self._limit} bytes, too many for this file")
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        """Refuse to begin anew.

        Raises:
            DownloadError: always.
        """
        raise DownloadError(f"the connection to {self._server} failed, and it cannot go on from there", transient=True)


def watched(fetch: Callable[[], None], received: Callable[[], int], server: str) -> None:
    """Run a download in a thread of its own, and give it up if it becomes a trickle.

    The timeout of a connection counts anew from every byte, so a byte a second would keep it for days. A thread that is
    given up ends when its file is closed, or with the process.

    Args:
        fetch: downloads the file; what it raises is raised here.
        received: returns the bytes that have come.
        server: its name, for messages.

    Raises:
        DownloadError: the download is slower than ``SLOWEST``.
    """
    failures: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            fetch()
        except BaseException as error:
            failures.append(error)
        finally:
            ended.set()

    began = time.monotonic()
    threading.Thread(target=run, daemon=True).start()
    while not ended.wait(_LOOK_EVERY):
        seconds = time.monotonic() - began
        if seconds > GRACE and received() < SLOWEST * seconds:
            raise DownloadError(f"{server} sent only {received()} bytes in {seconds:.0f} seconds")
    if failures:
        raise failures.pop()  # kept here, it would keep this frame, and that the connection
