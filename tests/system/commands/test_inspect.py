"""``d2lbert inspect``: what would be read, every problem with its line, and never a traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli_support import complaint, run

from d2lbert.tasks.table import NAMED

TICKETS = "Ticket;Kind\nI paid two times;billing\ncannot log in;login\n;login\nwhere is it;\n"
COLUMNS = ("--text-column", "ticket", "--label-column", "kind")


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    path = tmp_path / "tickets.csv"
    path.write_text(TICKETS)
    return path


def test_for_people(tickets: Path) -> None:
    result = run("inspect", tickets, *COLUMNS, "--model", "minilm")
    assert result.returncode == 1
    assert result.stdout.splitlines() == [
        f"{tickets}: read as csv, for classification",
        "columns: Ticket, Kind",
        "examples: 2",
        'first: {"text": "I paid two times", "label": "billing"}',
        "labels: billing 1, login 1",
        "rare: 2 of the labels have fewer than 5 examples",
        "words: 3 to 4, median 4",
        "characters: 13 to 16, median 14",
        "tokens: 5 to 6, median 6",
        "longer than 128 tokens: 0 (give a larger --max-length)",
        "duplicates: 0 examples repeat a text, 0 texts have different labels",
        "problems: 2",
        f"  {tickets}, line 4: the text is empty; fill it in or remove the line",
        f"  {tickets}, line 5: the label is empty; fill it in or remove the line",
    ]


def test_a_trained_model_reads_as_far_as_in_its_training(tickets: Path, classifier: Path, tmp_path: Path) -> None:
    shutil.copytree(classifier, tmp_path / "model")
    config = json.loads((classifier / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, "trained_length": 5}))
    result = run("inspect", tickets, *COLUMNS, "--model", tmp_path / "model")
    assert "longer than 5 tokens: 1 (give a larger --max-length)" in result.stdout


def test_for_programs(tickets: Path) -> None:
    found = json.loads(run("inspect", tickets, *COLUMNS, "--json").stdout)
    assert (found["examples"], len(found["problems"]), found["labels"]) == (2, 2, {"billing": 1, "login": 1})


def test_a_file_without_problems_has_status_0(tickets: Path) -> None:
    tickets.write_text("text,label\n" + "".join(f"text {number},a\n" for number in range(9)))
    result = run("inspect", tickets)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("no problems\n")


def test_texts_to_predict_need_no_labels(tickets: Path) -> None:
    tickets.write_text("text\na film\n\u200b\na plot\n")
    result = run("inspect", tickets, "--unlabelled")
    assert result.returncode == 1
    assert "examples: 2, without labels" in result.stdout
    assert "problems: 1\n" in result.stdout
    assert "line 3: the text is empty" in result.stdout


def test_many_problems_and_labels_are_not_all_shown(tickets: Path) -> None:
    tickets.write_text("text,label\n" + "".join(f"text {n},label {n}\n,x\n" for n in range(30)))
    shown = run("inspect", tickets).stdout
    assert "and 10 more" in shown
    assert "problems: 30" in shown
    assert len(json.loads(run("inspect", tickets, "--json").stdout)["problems"]) == 30


@pytest.mark.parametrize("task", NAMED)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.json", "a.jsonl", "a.parquet", "a.xml", "a.conll", "a"])
@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"\x00" * 99, b'{"a": [', b'"', b"a,b\n1\n", b"[" * 9999, b"<a>"]
)
def test_never_a_traceback(tmp_path: Path, task: str, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = run("inspect", path, "--task", task)
    assert result.returncode in (0, 1)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("task", "content", "tokens"),
    [
        ("pair", '{"first": "a", "second": "b", "label": "x"}', 5),
        ("question_answering", '{"question": "a", "context": "b\\nc", "answer": "c"}', 6),
        ("multiple_choice", '{"premise": "a", "choices": ["b", "c c"], "label": 1}', 6),
        ("tagging", '{"words": ["a", "b"], "tags": ["O", "B-X"]}', 4),
    ],
)
def test_tokens_are_those_that_the_model_reads(tmp_path: Path, task: str, content: str, tokens: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    found = json.loads(run("inspect", path, "--task", task, "--model", "minilm", "--json").stdout)
    assert found["tokens"]["most"] == tokens


def test_mistakes(tickets: Path, tmp_path: Path) -> None:
    assert "no file" in complaint("inspect", tmp_path / "nothing.csv")
    assert "unknown task 'tag': did you mean" in complaint("inspect", tickets, "--task", "tag")
    assert "unknown format 'exel'" in complaint("inspect", tickets, "--format", "exel")
    assert "no tokenizer of pieces" in complaint("inspect", tickets, *COLUMNS, "--model", "elmo-small")
