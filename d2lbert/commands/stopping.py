"""Ctrl-C in a training run: it ends after the current step, so that its state can be saved."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stops_after_step(tell: Callable[[], None]) -> Iterator[None]:
    """In this context Ctrl-C (SIGINT) only tells the run to stop, and a second Ctrl-C stops it at once.

    An exception in the middle of a step may be raised inside C code, which turns it into another error.

    Args:
        tell: called by the signal; what it sets is looked at between two steps.
    """

    def interrupt(number: int, frame: object) -> None:
        tell()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
