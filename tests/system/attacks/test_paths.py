"""Paths that are too long, lead in circles or to nothing, and streams that are full, closed or not read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import Ended

SURFACE = "1d paths, streams, variables"
LONG = "a" * 300
FINETUNE = ("finetune", "classification", "--model", "d2lbert-tiny", "--epochs", "1")
Attack, Refused = Callable[..., Ended], Callable[..., None]


@pytest.fixture
def places(tmp_path: Path, train: Path, classifier: Path) -> dict[str, str]:
    """Names for what the attacks below speak of."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("precious")
    os.mkfifo(tmp_path / "fifo")
    return {"train": str(train), "model": str(classifier), "long": LONG}


OPTIONS = {
    "finetune --train": [*FINETUNE, "--train", "{}", "--dev", "{train}", "--out", "out"],
    "finetune --dev": [*FINETUNE, "--train", "{train}", "--dev", "{}", "--out", "out"],
    "finetune --out": [*FINETUNE, "--train", "{train}", "--dev", "{train}", "--out", "{}"],
    "finetune --model": [*FINETUNE[:2], "--model", "{}", "--train", "{train}", "--dev", "{train}", "--out", "out"],
    "evaluate --model": ["evaluate", "classification", "--model", "{}", "--data", "{train}"],
    "evaluate --data": ["evaluate", "classification", "--model", "{model}", "--data", "{}"],
    "predict --model": ["predict", "classification", "--model", "{}", "--text", "good"],
    "pretrain --corpus": ["pretrain", "--corpus", "{}", "--out", "out", "--steps", "1"],
    "pretrain --out": ["pretrain", "--corpus", "{train}", "--out", "{}", "--steps", "1"],
    "pretrain --vocab": ["pretrain", "--corpus", "{train}", "--out", "out", "--vocab", "{}", "--steps", "1"],
}
PLACES = {
    "too long a name": LONG,
    "too long a path": "/".join(["b" * 200] * 30),
    "a link to itself": "loop",
    "below a link to itself": "loop/x",
    "below a file": "train.csv/x",
    "below the null device": "/dev/null/x",
    "nothing": "",
    "a link to nothing, below it": "nowhere/x",
}
ENDS_WELL = {("finetune --out", "a link to nothing, below it"), ("pretrain --out", "a link to nothing, below it")}


def _words(option: str, place: str, places: dict[str, str]) -> list[str]:
    return [word.format(place, **places) for word in OPTIONS[option]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("option", OPTIONS)
def test_a_place_that_cannot_be(
    option: str, place: str, places: dict[str, str], attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    ended = attack(*_words(option, PLACES[place], places))
    if (option, place) in ENDS_WELL and ended.status == 0:
        return
    refused(ended)
    left = set(tmp_path.iterdir()) - set(before)
    assert left <= {tmp_path / "out", tmp_path / "gone"}, left  # pretrain makes its folder before it reads
    assert not (tmp_path / "out").exists() or option.startswith("pretrain")


@pytest.mark.parametrize("place", ["full", "train.csv", "/dev/null", "fifo", "/proc/here"])
def test_out_that_is_taken(
    place: str, places: dict[str, str], attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    refused(attack(*_words("finetune --out", place, places)))
    assert (tmp_path / "full" / "mine").read_text() == "precious"
    assert sorted(path.name for path in (tmp_path / "full").iterdir()) == ["mine"]


def test_a_name_to_which_a_checkpoint_adds_too_much(
    places: dict[str, str], attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    refused(attack(*_words("finetune --out", "c" * 250, places), "--resume"), "File name too long")
    assert not (tmp_path / ("c" * 250)).exists()


STREAMS = {
    "data list": ["data", "list"],
    "models": ["models"],
    "predict": ["predict", "classification", "--model", "{model}", "--text", "good"],
    "evaluate": ["evaluate", "classification", "--model", "{model}", "--data", "{train}", "--predictions", "p"],
    "help": ["--help"],
}


@pytest.mark.parametrize("command", STREAMS)
def test_full_output(command: str, places: dict[str, str], attack: Attack, refused: Refused) -> None:
    words = [word.format(**places) for word in STREAMS[command]]
    refused(attack(*words, stdout="/dev/full"), "standard output: No space left on device")


@pytest.mark.parametrize("command", STREAMS)
def test_output_that_nobody_reads(command: str, places: dict[str, str], attack: Attack) -> None:
    ended = attack(*[word.format(**places) for word in STREAMS[command]], stdout="|")
    assert (ended.status, ended.stderr) == (141, "")


@pytest.mark.parametrize("command", ["data list", "models", "predict"])
def test_closed_output(command: str, places: dict[str, str], attack: Attack) -> None:
    ended = attack(*[word.format(**places) for word in STREAMS[command]], stdout="-")
    assert (ended.status, ended.stderr) == (0, "")


def test_more_output_than_a_buffer_holds(places: dict[str, str], attack: Attack, refused: Refused) -> None:
    words = ["predict", "classification", "--model", places["model"], *["--text", "good film " * 19] * 200]
    refused(attack(*words, stdout="/dev/full"), "No space left on device")
    assert attack(*words, stdout="|").status == 141


VARIABLES = {
    "data in a home that is none": ({"D2LBERT_DATA": "~nosuchuser/x"}, ["data", "list"], "D2LBERT_DATA is"),
    "a cache in a home that is none": ({"D2LBERT_CACHE": "~nosuchuser/x"}, ["models"], "D2LBERT_CACHE is"),
    "a cache for data in a home that is none": (
        {"D2LBERT_CACHE": "~nosuchuser/x"},
        ["data", "list"],
        "D2LBERT_CACHE is",
    ),
    "data too long": ({"D2LBERT_DATA": "/" + LONG}, ["data", "list"], "File name too long"),
    "a cache too long": ({"D2LBERT_CACHE": "/" + LONG}, ["models"], "File name too long"),
    "a cache for data too long": ({"D2LBERT_CACHE": "/" + LONG}, ["data", "list"], "File name too long"),
    "data that are a file": ({"D2LBERT_DATA": "/dev/null"}, ["data", "list"], "not a folder"),
    "data in a circle": ({"D2LBERT_DATA": "loop"}, ["data", "list"], "D2LBERT_DATA names loop"),
    "a cache that is a file": ({"D2LBERT_CACHE": "/dev/null"}, ["data", "fetch", "sst2"], "D2LBERT_OFFLINE=1"),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables(name: str, places: dict[str, str], attack: Attack, refused: Refused) -> None:
    environment, words, message = VARIABLES[name]
    refused(attack(*words, environment=environment), message)


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"D2LBERT_DATA": "", "D2LBERT_CACHE": ""},
        {"COLUMNS": "0"},
        {"TERM": "dumb", "NO_COLOR": "1"},
        {"HOME": "/nowhere"},
        {"TMPDIR": "/nowhere"},
    ],
    ids=str,
)
def test_surroundings_that_do_no_harm(environment: dict[str, str], attack: Attack, accepted: Any) -> None:
    accepted(attack("data", "list", environment=environment))
    accepted(attack("models", environment=environment))


def test_a_limit_of_file_sizes(places: dict[str, str], attack: Attack, refused: Refused, tmp_path: Path) -> None:
    refused(attack(*_words("finetune --out", "out", places), largest_file=100_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fifo", "full", "loop", "nowhere", "train.csv"]


def test_errors_of_the_program_keep_their_trace(attack: Attack) -> None:
    broken = "import d2lbert.data; d2lbert.data.describe = lambda: [].sort(1)"
    ended = attack("data", "list", before=broken)
    assert ended.status == 1
    assert "Traceback" in ended.stderr
    assert "TypeError" in ended.stderr


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("MemoryError()", "not enough memory"),
        (
            'RuntimeError("DefaultCPUAllocator: can\'t allocate memory: you tried to allocate 1 byte")',
            "not enough memory",
        ),
        ("OSError(24, 'Too many open files', 'some.txt')", "some.txt: Too many open files; raise the limit"),
        ("OSError(5, 'Input/output error')", "d2lbert: Input/output error; check the path"),
        ("OSError('a library says no more')", "a library says no more"),
    ],
)
def test_what_the_system_refuses(error: str, message: str, attack: Attack, refused: Refused) -> None:
    raised = f"import d2lbert.data\ndef fail(): raise {error}\nd2lbert.data.describe = fail"
    refused(attack("data", "list", before=raised), message)
