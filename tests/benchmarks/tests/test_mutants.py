"""Planted bugs: every row of the table still applies, and the runner tells killed from survived without a trace."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.planted_bugs import Bug, Outcome, fingerprint, own_tests, planted, problems, read_bugs, try_bug
from benchmarks.tests import mutants
from benchmarks.tests.mutants import GOAL, judge

BUGS = read_bugs()
SMALL = Bug("a sum is a difference", "examples", "sums.py", "a + b", "a - b")


def test_every_row_applies() -> None:
    assert [problem for bug in BUGS for problem in problems(bug)] == []


def test_there_are_enough_over_the_whole_package_and_no_name_comes_twice() -> None:
    topics = {"tokenizer", "masking", "models", "losses", "loops", "metrics", "files and checkpoints", "decoding"}
    assert {bug.topic for bug in BUGS} >= topics | {"readers"}
    assert len(BUGS) == len({bug.name for bug in BUGS}) >= 60
    assert sum(bool(bug.why) for bug in BUGS) <= (1 - GOAL) * len(BUGS)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package of one function, with a test that sees little and one that sees more."""
    files = {
        "d2lbert/__init__.py": "",
        "d2lbert/sums.py": "def add(a, b):\n    return a + b\n",
        "tests/test_sums.py": "from d2lbert.sums import add\n\ndef test_add():\n    assert add(2, 1) == 3\n",
        "tests/test_sums_of_zero.py": "from d2lbert.sums import add\n\ndef test_add():\n    assert add(2, 0) == 2\n",
        "pyproject.toml": "[tool.pytest.ini_options]\npythonpath = ['.']\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("benchmarks", "data", "tools", "results"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_a_row_that_cannot_be_planted_says_why(checkout: Path) -> None:
    assert problems(SMALL, checkout) == []
    wrong = {
        "there is no times.py": {"file": "times.py"},
        "occurs 0 times": {"old": "a * b"},
        "occurs 2 times": {"old": "b"},
        "there is no test test_times.py": {"tests": ("test_times.py",)},
        "has no tests of its own": {"file": "__init__.py", "old": "", "new": "x = 1"},
        "is no Python": {"new": "a +"},
    }
    for message, change in wrong.items():
        found = problems(dataclasses.replace(SMALL, **change), checkout)  # type: ignore[arg-type]
        assert any(message in problem for problem in found), (message, found)


def test_tests_are_those_of_the_module_unless_named(checkout: Path) -> None:
    assert own_tests(SMALL, checkout) == ("test_sums.py", "test_sums_of_zero.py")
    named = dataclasses.replace(SMALL, tests=("test_sums.py",))
    assert own_tests(named, checkout) == ("test_sums.py",)


def test_a_bug_is_planted_in_a_copy_alone(checkout: Path) -> None:
    before = (checkout / "d2lbert" / "sums.py").read_bytes()
    with planted(SMALL, checkout) as copy:
        assert "a - b" in (copy / "d2lbert" / "sums.py").read_text()
        assert (checkout / "d2lbert" / "sums.py").read_bytes() == before
    assert not copy.exists()


def test_what_was_tried_is_tried_again_once_anything_has_changed(checkout: Path) -> None:
    tests = own_tests(SMALL, checkout)
    seen = {fingerprint(SMALL, tests, checkout), fingerprint(None, tests, checkout), fingerprint(SMALL, (), checkout)}
    seen.add(fingerprint(dataclasses.replace(SMALL, new="b"), tests, checkout))
    assert fingerprint(dataclasses.replace(SMALL, name="other words"), tests, checkout) in seen
    for name in ("d2lbert/sums.py", "tests/test_sums.py", "tests/conftest.py"):
        with (checkout / name).open("a") as stream:
            stream.write("\n# changed\n")
        seen.add(fingerprint(SMALL, tests, checkout))
    assert len(seen) == 7


@pytest.mark.slow
def test_a_bug_is_killed_by_tests_that_see_it_and_survives_others() -> None:
    bug = next(bug for bug in BUGS if bug.file == "text/vocab.py")
    assert try_bug(None, ["text/test_vocab.py"]).status == "passed"
    killed = try_bug(bug, ["text/test_vocab.py"])
    assert killed.status == "failed"
    assert killed.by.startswith("text/test_vocab.py::test_")
    assert try_bug(bug, ["text/test_words.py"]).status == "passed"


def _attempt(bug: Bug | None, tests: Sequence[str]) -> Outcome:
    """Bugs end as their new text says; one test file is red without any bug."""
    if bug is None:
        return Outcome("failed" if "text/test_bpe.py" in tests else "passed", "", 1.0)
    return Outcome(bug.new, "test_a.py::test_b" if bug.new == "failed" else "", 1.0)


def test_the_rate_counts_what_could_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    green, red = ("text/test_vocab.py",), ("text/test_bpe.py",)
    bugs = [
        Bug("one", "readers", "text/vocab.py", "", "failed", green),
        Bug("two", "readers", "text/vocab.py", "", "no end", green),
        Bug("three", "losses", "text/vocab.py", "", "passed", green, "equal in every number"),
        Bug("four", "losses", "text/bpe.py", "", "failed", red),
    ]
    found = judge(bugs, 2, _attempt)
    assert (found["planted"], found["killed"], found["without_green_baseline"]) == (3, 2, 1)
    assert found["rate"] == pytest.approx(2 / 3)
    assert found["topics"] == {"losses": {"planted": 1, "killed": 0}, "readers": {"planted": 2, "killed": 2}}
    assert found["survivors"] == {"three": "equal in every number"}
    assert found["test_seconds"] == 3.0
    assert found["bugs"] == {
        "one": "killed by test_a.py::test_b",
        "two": "killed by the time limit",
        "three": "survived",
        "four": "baseline not green",
    }
    assert "survived  three" in capsys.readouterr().out


def test_rows_that_no_longer_apply_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "read_bugs", lambda: [SMALL])
    with pytest.raises(SystemExit, match=r"a sum is a difference: there is no sums.py"):
        mutants.main([])
