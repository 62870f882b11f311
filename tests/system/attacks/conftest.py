"""What the attacks share: a server that runs commands, a small trained model, files to train on, and who judges."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fork_server import Command, Ended, ForkServer

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "poor", "dull", "awful")
Attack = Callable[..., Ended]


@pytest.fixture(autouse=True)
def surface(request: pytest.FixtureRequest, record_property: Callable[[str, Any], None]) -> None:
    """Tell the table at the end of the run to which surface a test belongs."""
    record_property("surface", request.module.SURFACE)


@pytest.fixture(scope="session")
def server(root: Path) -> Iterator[ForkServer]:
    started = ForkServer(root)
    yield started
    started.close()


@pytest.fixture
def attack(server: ForkServer, tmp_path: Path) -> Attack:
    """Run a command in an empty folder. Its options are those of :class:`fork_server.Command`."""

    def run(*arguments: object, **options: Any) -> Ended:
        return server.run(Command([str(word) for word in arguments], str(tmp_path), **options))

    return run


@pytest.fixture(scope="session")
def table() -> str:
    """A CSV of 24 labelled sentences."""
    rows = [f"a {word} {noun},{label}\n" for noun in ("film", "plot", "cast") for word, label in _words()]
    return "text,label\n" + "".join(rows)


def _words() -> list[tuple[str, str]]:
    return [*((word, "pos") for word in GOOD), *((word, "neg") for word in BAD)]


@pytest.fixture
def train(tmp_path: Path, table: str) -> Path:
    path = tmp_path / "train.csv"
    path.write_text(table)
    return path


@pytest.fixture(scope="session")
def classifier(server: ForkServer, tmp_path_factory: pytest.TempPathFactory, table: str) -> Path:
    """The book's smallest BERT, fine-tuned for a moment. Nobody may change it: copy it first."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "train.csv").write_text(table)
    words = ["finetune", "classification", "--model", "d2lbert-tiny", "--out", str(folder / "model")]
    ended = server.run(Command([*words, "--train", "train.csv", "--dev", "train.csv", "--epochs", "1"], str(folder)))
    assert ended.status == 0, ended.stderr
    return folder / "model"


@pytest.fixture(scope="session")
def modes_count() -> None:
    """Skip where root cannot be bound by the modes of files, and say so."""
    if os.geteuid() == 0 and not hasattr(ctypes.CDLL(None), "capset"):
        pytest.skip("runs as root, whom modes of files do not bind, and this system cannot drop capabilities")


# What a command tells of its data and settings before it begins.
_NOTES = re.compile(r"note: |[\d,]+ documents, |no held-out documents: |going on after step ")


def complaints(ended: Ended) -> list[str]:
    """Return the lines on standard error, without warnings, notes and the bar of progress."""
    lines = [line for line in ended.stderr.replace("\r", "\n").splitlines() if line.strip()]
    return [line for line in lines if not (line.startswith("warning:") or "%|" in line or _NOTES.match(line))]


@pytest.fixture(scope="session")
def refused() -> Callable[[Ended, str], None]:
    """Check that a command was refused in one line, which holds some words."""

    def check(ended: Ended, words: str = "") -> None:
        lines = complaints(ended)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.status == 2, (ended.status, ended.stdout[-300:], ended.stderr[-300:])
        assert len(lines) == 1, lines
        assert lines[0].startswith("d2lbert: ")
        assert words in lines[0]

    return check


@pytest.fixture(scope="session")
def accepted() -> Callable[[Ended], None]:
    """Check that a command ended well."""

    def check(ended: Ended) -> None:
        assert ended.status == 0, (ended.status, ended.stderr[-500:])
        assert "Traceback" not in ended.stderr
        assert "NaN" not in ended.stdout  # it is not JSON

    return check
