"""Which planted bugs do the tests of their own module notice?

Each bug of ``planted_bugs.toml`` is put into a copy of the package, and the tests of its module run on the copy. A bug
is killed if one of them fails, and survives if all pass. The same tests must first pass without any bug. What was tried
is kept in --runs and not tried again before the package, its tests or the bug has changed.

    python -m benchmarks.tests.mutants                       # all of them: an hour on two busy cores
    python -m benchmarks.tests.mutants --only clip top-p     # those whose names hold one of these; writes no result
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.command_line import add_runs, command_line
from benchmarks.planted_bugs import Bug, Outcome, fingerprint, own_tests, problems, read_bugs, try_bug
from benchmarks.record import Record, kept

GOAL = 0.95


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the bugs and write the result; the exit status is 1 where too many survive or a row cannot be judged."""
    parser = command_line(__doc__ or "")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="bugs whose names hold one of these")
    parser.add_argument("--processes", type=int, default=2, help="bugs that are tried at the same time")
    add_runs(parser, "mutants")
    options = parser.parse_args(arguments)
    record = Record("tests/mutants", ["numpy", "torch", "pytest", "hypothesis"])
    bugs = [bug for bug in read_bugs() if not options.only or any(word in bug.name for word in options.only)]
    rotten = [problem for bug in bugs for problem in problems(bug)]
    if rotten:
        sys.exit("\n".join(rotten))
    metrics = judge(bugs, options.processes, lambda bug, tests: _remembered(options.runs, bug, tests))
    print(f"{metrics['killed']} of {metrics['planted']} killed ({metrics['rate']:.1%})")
    if not options.only:
        record.path.parent.mkdir(exist_ok=True)
        record.write(metrics)
    sys.exit(int(metrics["rate"] < GOAL or metrics["without_green_baseline"] > 0))


def judge(
    bugs: Sequence[Bug], processes: int = 1, attempt: Callable[[Bug | None, Sequence[str]], Outcome] = try_bug
) -> dict[str, Any]:
    """Try bugs, and return how many of them were killed, in all and by topic, and which test killed each.

    Args:
        bugs: to be tried.
        processes: how many at the same time.
        attempt: runs tests on a copy of the package with a bug, or without any.
    """
    by_tests = list(dict.fromkeys(own_tests(bug) for bug in bugs))
    with ThreadPoolExecutor(processes) as pool:
        greens = pool.map(lambda tests: attempt(None, tests).status == "passed", by_tests)
        baseline = dict(zip(by_tests, greens, strict=True))
        rows = list(pool.map(lambda bug: _row(bug, baseline[own_tests(bug)], attempt), bugs))
    judged = [row for row in rows if row["outcome"] in ("killed", "survived")]
    killed = [row for row in judged if row["outcome"] == "killed"]
    planted, found = Counter(row["topic"] for row in judged), Counter(row["topic"] for row in killed)
    return {
        "planted": len(judged),
        "killed": len(killed),
        "rate": len(killed) / max(1, len(judged)),
        "without_green_baseline": len(rows) - len(judged),
        "topics": {topic: {"planted": count, "killed": found[topic]} for topic, count in sorted(planted.items())},
        "survivors": {row["name"]: row["why"] for row in judged if row["outcome"] == "survived"},
        "test_seconds": round(sum(row["seconds"] for row in rows), 1),
        "bugs": {row["name"]: f"{row['outcome']} {row['by']}".strip() for row in rows},
    }


def _remembered(folder: Path, bug: Bug | None, tests: Sequence[str]) -> Outcome:
    """Try a bug, unless just this was tried before."""
    path = folder / f"{fingerprint(bug, tests)[:32]}.json"
    return Outcome(**kept(path, {"tests": list(tests)}, lambda: asdict(try_bug(bug, tests))))


def _row(bug: Bug, green: bool, attempt: Callable[[Bug | None, Sequence[str]], Outcome]) -> dict[str, Any]:
    row = {"name": bug.name, "topic": bug.topic, "why": bug.why}
    if not green:
        return {**row, "outcome": "baseline not green", "by": "", "seconds": 0.0}
    outcome = attempt(bug, own_tests(bug))
    killed = "survived" if outcome.status == "passed" else "killed"
    by = "the time limit" if outcome.status == "no end" else outcome.by
    print(f"{killed:9} {bug.name} {by}", flush=True)
    return {**row, "outcome": killed, "by": f"by {by}" if killed == "killed" else "", "seconds": outcome.seconds}


if __name__ == "__main__":
    main()
