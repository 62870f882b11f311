"""The file of ``evaluate``: the same command writes it anew, and nothing else is overwritten."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from cli_support import complaint, run

ROWS = 'text,label\na good film,positive\n"poor, \u2028 a\tplot",negative\n'


@pytest.fixture
def model(classifier: Path, tmp_path: Path) -> Path:
    """A model in a folder of its own."""
    return Path(shutil.copytree(classifier, tmp_path / "model"))


@pytest.fixture
def test_file(tmp_path: Path) -> Path:
    path = tmp_path / "test.csv"
    path.write_text(ROWS, encoding="utf-8")
    return path


def _evaluate(model: Path, file: Path, *more: str | Path) -> str:
    """Score a model; return where its answers are, as the command says, or by default."""
    result = run("evaluate", "classification", "--model", model, "--data", file, *more)
    assert result.returncode == 0, result.stderr
    default = str(model / f"predictions-{file.name}.jsonl")
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    if not notes:
        return default
    (line,) = notes
    beginning = f"note: {default} is not of these examples: the answers go to "
    assert line.startswith(beginning)
    return line.removeprefix(beginning)


def _texts(path: str | Path) -> list[str]:
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    return [json.loads(line)["example"]["text"] for line in lines if line]


def test_two_files_of_one_name_keep_their_answers(model: Path, tmp_path: Path) -> None:
    found = []
    for folder, word in (("a", "film"), ("b", "plot"), ("a", "film"), ("b", "plot")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "test.csv").write_text(f"text,label\na {word},positive\nthe {word},negative\n")
        found.append(_evaluate(model, tmp_path / folder / "test.csv"))
    first, second = (str(model / f"predictions-test.csv{number}.jsonl") for number in ("", "-2"))
    assert found == [first, second, first, second]
    assert (_texts(first), _texts(second)) == (["a film", "the film"], ["a plot", "the plot"])


def test_a_named_file_is_written_anew_by_the_same_command(model: Path, test_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "answers.jsonl"
    _evaluate(model, test_file, "--predictions", out)
    before = out.stat().st_ino
    assert len(_texts(out)) == 2
    _evaluate(model, test_file, "--predictions", out)
    assert out.stat().st_ino != before
    assert len(_texts(out)) == 2
    test_file.write_text(ROWS + "fine,positive\n", encoding="utf-8")  # other examples
    line = complaint("evaluate", "classification", "--model", model, "--data", test_file, "--predictions", out)
    assert "not with answers to these examples" in line
    assert len(_texts(out)) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"mine", b"[1]\n[2]\n", b"{}\n{}\n", b"\xff\n", b'{"example": 1}\n{"example": 2}\n', b"[" * 5000],
)
def test_any_other_file_stays_as_it_is(model: Path, test_file: Path, tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(content)
    command = ("evaluate", "classification", "--model", model, "--data", test_file)
    line = complaint(*command, "--predictions", other)
    assert f"--predictions {other} exists, and not with answers to these examples: choose a new file" in line
    assert other.read_bytes() == content
    default = model / "predictions-test.csv.jsonl"
    default.write_bytes(content)
    assert _evaluate(model, test_file) == str(model / "predictions-test.csv-2.jsonl")
    assert default.read_bytes() == content


def test_neither_the_data_nor_a_pipe_is_overwritten(model: Path, test_file: Path, tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    link.symlink_to(test_file)
    for out in (test_file, link, pipe):
        line = complaint("evaluate", "classification", "--model", model, "--data", test_file, "--predictions", out)
        assert f"--predictions {out} exists" in line
    assert test_file.read_text(encoding="utf-8") == ROWS
    assert pipe.is_fifo()
