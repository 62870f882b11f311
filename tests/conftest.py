"""What every test shares: folders, how many examples hypothesis draws, and what two processes run at the same time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = "tests/system/notebooks/test_chapters_run.py"
SITE = "tests/system/site/"

# A process beside this one can make any example slow, so nothing about time is checked.
settings.register_profile("full", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=50)
settings.register_profile("soak", settings.get_profile("full"), max_examples=1000)
settings.load_profile("quick")  # make test says --hypothesis-profile=full, make soak says soak


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; a test that asks for it is skipped, saying so, where there is none."""
    folder = os.environ.get("D2LBERT_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("needs real data: set D2LBERT_DATA to a folder laid out as <dataset>/<file>")
    return Path(folder)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No data but the samples, and no network."""
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path))
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")


def unit_of_work(nodeid: str) -> str:
    """Return what stays in one process: a file, for its tests share models and folders; but each chapter by itself."""
    return nodeid if nodeid.startswith(CHAPTERS) else nodeid.partition("::")[0]


def turn(nodeid: str, slow_files: set[str]) -> int:
    """Return when a test's turn comes: the chapters, then the files with slow tests, then the site, then the rest.

    So no process is left alone with a long test at the end, and the site finds the chapters run.
    """
    if nodeid.startswith(CHAPTERS):
        return 0
    if nodeid.startswith(SITE):
        return 2
    return 1 if nodeid.partition("::")[0] in slow_files else 3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--soak", default="3000", help="how much make soak tries: bad requests to the server, strings for a tokenizer"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests; those of one turn keep their order."""
    slow_files = {item.nodeid.partition("::")[0] for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: turn(item.nodeid, slow_files))


def attack_table(reports: Iterable[tuple[str, Any]]) -> list[str]:
    """Return the lines of the table of attacks: tried, passed and failed on each surface; empty without any.

    Args:
        reports: the outcome and the report of every test.
    """
    counts: dict[str, Counter[str]] = {}
    for outcome, report in reports:
        surface = dict(getattr(report, "user_properties", ())).get("surface")
        if surface is not None and outcome in ("passed", "failed", "error", "xfailed", "xpassed"):
            counts.setdefault(surface, Counter())["passed" if outcome == "passed" else "failed"] += 1
    rows = [(surface, sum(count.values()), count["passed"], count["failed"]) for surface, count in counts.items()]
    if not rows:
        return []
    rows = [*sorted(rows), ("all", *(sum(row[column] for row in rows) for column in (1, 2, 3)))]
    lines = [f"{surface:44} {tried:6} {passed:7} {failed:7}" for surface, tried, passed, failed in rows]
    return [f"{'surface':44} {'tried':>6} {'passed':>7} {'failed':>7}", *lines]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table of attacks where tests of ``system/attacks`` ran. It stands here for runs in two processes."""
    found = [(outcome, report) for outcome, reports in terminalreporter.stats.items() for report in reports]
    lines = attack_table([(outcome, report) for outcome, report in found if getattr(report, "when", "") == "call"])
    if lines:
        terminalreporter.section("attacks")
        terminalreporter.write_line("\n".join(lines))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deal out units of work in their order where pytest runs with ``--dist loadfile``."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByUnit(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return unit_of_work(nodeid)

    config.option.loadscopereorder = False
    return ByUnit(config, log)
