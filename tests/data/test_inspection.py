"""What an inspection finds: the format, the first example, labels, lengths, duplicates and every problem."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import Columns
from d2lbert.data.inspection import count_labels, inspect_file, spread, whole_text
from d2lbert.data.readers.formats import read_file

TICKETS = (
    "id;Text;Label\n1;I paid two times;billing\n2;cannot log in;login\n3;I paid two times;login\n4; ;login\n5;late\n"
)


def write(folder: Path, text: str, name: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_table_of_tickets(tmp_path: Path) -> None:
    path = write(tmp_path, TICKETS, "tickets.csv")
    found, examples = inspect_file(path)
    assert len(examples) == 3
    problems = found.pop("problems")
    assert [problem.split(": ")[0] for problem in problems] == [f"{path}, line 5", f"{path}, line 6"]
    assert found == {
        "file": str(path),
        "task": "classification",
        "format": "csv",
        "columns": ["id", "Text", "Label"],
        "examples": 3,
        "labelled": True,
        "first": {"text": "I paid two times", "label": "billing"},
        "labels": {"login": 2, "billing": 1},
        "words": {"least": 3, "median": 4, "most": 4},
        "characters": {"least": 13, "median": 16, "most": 16},
        "duplicates": {"repeated": 1, "with different labels": 1},
    }
    assert json.loads(json.dumps(found)) == json.loads(json.dumps(found))


def test_a_file_without_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "text\na film\na plot\n", "texts.csv")
    found, examples = inspect_file(path)
    assert (found["labelled"], found["examples"], found["labels"]) == (False, 2, {})
    assert "no column 'label'" in found["problems"][0]
    assert [example.label for example in examples] == [None, None]
    wanted = inspect_file(path, labelled=False)[0]
    assert (wanted["labelled"], wanted["examples"], wanted["problems"]) == (False, 2, [])
    lines = write(tmp_path, "a film\na plot\nand more\n", "texts.txt")
    assert (inspect_file(lines)[0]["format"], inspect_file(lines)[0]["examples"]) == ("lines", 3)


@pytest.mark.parametrize(
    ("task", "name", "content", "labels", "text"),
    [
        ("pair", "a.csv", "first,second,label\na,b,same\n", {"same": 1}, "a\nb"),
        ("pair", "a.csv", "first,second,score\na,b,4.5\n", {"4.5": 1}, "a\nb"),
        ("tagging", "a.conll", "Jo B-PER\nDoe I-PER\n\nx O\n", {"PER": 1}, "Jo Doe"),
        ("question_answering", "a.csv", "question,context,answer\nq,a b,b\n", {"answered": 1}, "q\na b"),
        ("question_answering", "a.csv", "question,context,answer\nq,a b,\n", {"not answered by the text": 1}, "q\na b"),
        ("multiple_choice", "a.csv", "premise,choice0,choice1,label\np,x,yy,1\n", {"choice 1": 1}, "p\nyy"),
    ],
)
def test_every_task(tmp_path: Path, task: str, name: str, content: str, labels: dict[str, int], text: str) -> None:
    found, examples = inspect_file(write(tmp_path, content, name), task)
    assert found["labels"] == count_labels(examples) == labels
    assert whole_text(examples[0]) == text
    assert found["problems"] == []


def test_what_cannot_be_read_at_all_is_a_problem(tmp_path: Path) -> None:
    for name, content in (("a.csv", ""), ("a.json", "{"), ("a.parquet", "x"), ("a.jsonl", "[")):
        found, examples = inspect_file(write(tmp_path, content, name))
        assert (examples, len(found["problems"])) == ([], 1), name


def test_columns_and_format_are_those_of_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path, "body|kind\na,b|x\n", "tickets.txt")
    columns = Columns(text_column="body", label_column="kind", separator="|")
    found, examples = inspect_file(path, columns=columns)
    assert found["format"] == "csv"
    assert examples == read_file(path, "csv", columns=columns)
    with pytest.raises(UserError, match="unknown task 'tag'"):
        inspect_file(path, "tag")


def test_the_columns_shown_are_those_that_are_read(tmp_path: Path) -> None:
    """The first line of a TSV is either shown as columns or counted as an example, never both."""
    rows = "a film\tpos\na plot\tneg\n"
    named, examples = inspect_file(write(tmp_path, f"review\tsentiment\n{rows}", "named.tsv"))
    assert (named["columns"], examples, len(named["problems"])) == (["review", "sentiment"], [], 1)
    bare, examples = inspect_file(write(tmp_path, f"{rows}a cast\tpos\n", "bare.tsv"))
    assert (bare["columns"], bare["labels"]) == (["text", "label"], {"pos": 2, "neg": 1})
    assert len(examples) == 3


def test_a_spread() -> None:
    assert spread([3, 1, 2]) == {"least": 1, "median": 2, "most": 3}
