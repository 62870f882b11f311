"""How quiet a machine was while something was measured: what others took of its processors."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys
import time
from pathlib import Path

# Columns of the first line of /proc/stat, in ticks: proc(5). Guests are counted under user and nice as well.
_BUSY = ("user", "nice", "system", "irq", "softirq")
_COLUMNS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER, prctl(2)
# More than this share of the processors in other hands, and speeds are provisional.
QUIET = 0.05


class Watch:
    """Watches the processors from when it is made.

    A child may end before its own children do, as the driver of a browser does before the browser. On Linux they become
    children of this process then, so what they have used is not taken for that of others.

    Args:
        stat: the file in which Linux counts their time; other systems have none.
    """

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self.stat = stat
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_ADOPT, 1, 0, 0, 0)
        self.began, self.ticks, self.own = time.monotonic(), self._ticks(), _own_seconds()

    def shares(self) -> dict[str, float] | None:
        """Return which shares of the processors' time since then were not ours, or None where nobody counts.

        Returns:
            ``others``: of programs that are neither this process nor its children that have ended.
            ``stolen``: of the other machines on the same hardware.
        """
        if self.ticks is None:
            return None
        _bury_orphans()
        now = self._ticks() or {}
        ticks = {name: now[name] - self.ticks[name] for name in _COLUMNS}
        second = os.sysconf("SC_CLK_TCK")
        there = max((time.monotonic() - self.began) * (os.cpu_count() or 1), 1 / second)
        busy = sum(ticks[name] for name in _BUSY) / second
        return {
            "others": round(max(busy - (_own_seconds() - self.own), 0.0) / there, 3),
            "stolen": round(ticks["steal"] / second / there, 3),
        }

    def _ticks(self) -> dict[str, int] | None:
        if not self.stat.is_file():
            return None
        words = self.stat.read_text().splitlines()[0].split()
        return dict(zip(_COLUMNS, map(int, words[1:]), strict=False))


def quiet(shares: dict[str, float] | None) -> bool:
    """Whether so little was taken from a measurement that its speeds may be believed; False where nobody counted."""
    return shares is not None and sum(shares.values()) < QUIET


def _bury_orphans() -> None:
    """Read the status of every child that has ended: only then does the system count what it has used as ours."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or somebody waits for it
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                os.waitpid(int(path.parent.name), os.WNOHANG)


def _own_seconds() -> float:
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
