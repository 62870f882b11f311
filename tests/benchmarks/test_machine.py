"""How quiet a machine was: what other programs and other machines took of its processors."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.machine import Watch, quiet

SECOND = os.sysconf("SC_CLK_TCK")


def counted(path: Path, **seconds: float) -> None:
    """Write what Linux would: the seconds of each kind since the start, in ticks, then the columns of guests."""
    columns = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    path.write_text(
        "cpu  " + " ".join(str(round(seconds.get(name, 0) * SECOND)) for name in columns) + " 7 7\ncpu0 1\n"
    )


def test_what_others_took_is_what_was_busy_less_our_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, own = [100.0], [5.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(machine, "_own_seconds", lambda: own[0])
    counted(tmp_path / "stat", user=50, idle=1000, steal=3)
    watch = Watch(tmp_path / "stat")
    clock[0], own[0] = 110.0, 11.0
    counted(tmp_path / "stat", user=55, nice=1, system=2, irq=0.5, softirq=0.5, idle=1010, iowait=9, steal=4)
    assert watch.shares() == {"others": 0.15, "stolen": 0.05}  # of 20 seconds: 9 busy, 6 of them ours; 1 stolen
    assert not quiet(watch.shares())


def test_our_own_work_and_that_of_our_children_is_ours(tmp_path: Path) -> None:
    before = machine._own_seconds()
    subprocess.run([sys.executable, "-c", "for _ in range(3_000_000): pass"], check=True)
    sum(range(3_000_000))
    assert machine._own_seconds() - before > 0.02


@pytest.mark.parametrize(
    ("shares", "is_quiet"),
    [({"others": 0.02, "stolen": 0.02}, True), ({"others": 0.02, "stolen": 0.04}, False), (None, False)],
)
def test_little_is_less_than_a_twentieth(shares: dict[str, float] | None, is_quiet: bool) -> None:
    assert quiet(shares) is is_quiet


def test_where_nobody_counts_nothing_is_said(tmp_path: Path) -> None:
    assert Watch(tmp_path / "no such file").shares() is None


# In a process of its own: whoever watches adopts orphans from then on. The shell ends before its child has begun.
ORPHANED = """
import subprocess, sys
from benchmarks.machine import Watch, _own_seconds
watch, before = Watch(), _own_seconds()
work = f"{sys.executable} -c 'sum(range(40_000_000))' &"
subprocess.run(["sh", "-c", work], stdout=subprocess.PIPE, check=True)  # waits until nobody holds the pipe any more
shares = watch.shares()
print(_own_seconds() - before, *shares.values())
"""


@pytest.mark.skipif(not Path("/proc/stat").is_file(), reason="this system has no /proc/stat")
def test_here_shares_are_shares_and_orphans_are_ours() -> None:
    run = subprocess.run([sys.executable, "-c", ORPHANED], capture_output=True, text=True, check=True)
    own, others, stolen = map(float, run.stdout.split())
    assert own > 0.3
    assert 0 <= others <= 1.5
    assert 0 <= stolen <= 1.5
