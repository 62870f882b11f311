"""Threads for work of PyTorch that is not the batcher's: loading models, and trying them.

PyTorch shares the work of every thread that calls it among helpers, one for each processor, and keeps them as long as
that thread lives (OpenMP). Helpers that are idle watch for work, so that the next of a hundred small operations begins
at once. Where there are more of them than processors, GNU's OpenMP lets them sleep instead, and a short text takes
twice as long. So of all threads that call PyTorch only the batcher's may last.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Result = TypeVar("Result")


def in_passing(function: Callable[Given, Result], *given: Given.args, **named: Given.kwargs) -> Result:
    """Return what a function returns, called in a thread that ends with it."""
    with ThreadPoolExecutor(1, thread_name_prefix="passing") as thread:
        return thread.submit(function, *given, **named).result()
