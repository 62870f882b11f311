"""Let MXNet use every processor, and leave PyTorch its threads.

Both compute with the threads of one library, OpenMP. MXNet's library, when it is loaded, tells OpenMP to use half as
many threads as there are processors: it takes two of them for one core. PyTorch, in the same process, then has half of
its threads, too. Where the variable ``OMP_NUM_THREADS`` is set, MXNet leaves OpenMP as it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE = "OMP_NUM_THREADS"


@contextmanager
def all_processors() -> Iterator[None]:
    """Import MXNet in this context: OpenMP stays as it is, by default with a thread for each processor.

    What the user has set holds; the environment is afterwards as it was.
    """
    if _VARIABLE in os.environ:
        yield
        return
    # The number matters only where MXNet is what loads OpenMP, which reads it then.
    os.environ[_VARIABLE] = str(_processors())
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
