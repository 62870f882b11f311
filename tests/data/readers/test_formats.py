"""Formats of a user's own files: which a task can read, which an ending tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from d2lbert import UserError
from d2lbert.data import Pair, ScoredPair, Sentence, read_file
from d2lbert.data.readers.formats import READERS, guess_format


def write(folder: Path, text: str, name: str = "file.tsv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_endings_tell_the_format() -> None:
    assert guess_format("a.csv", "pair") == "csv"
    assert guess_format("rte.xml", "pair") == "rte-xml"
    assert guess_format("a.tsv.gz", "pair") == guess_format("a", "pair") == "glue-tsv"
    assert guess_format("a.csv.xz", "classification") == "csv"
    assert guess_format("a.xml", "classification") == "sst2"


def test_endings_tell_the_format_of_choices() -> None:
    assert guess_format("a.xml", "multiple_choice") == "copa"
    assert guess_format("a.csv.gz", "multiple_choice") == guess_format("a", "multiple_choice") == "swag"


def test_an_unknown_format_names_the_near_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"unknown format 'glue_tsv': did you mean glue-tsv"):
        read_file(write(tmp_path, "x"), "glue_tsv")


def test_an_unknown_task_names_the_near_one(tmp_path: Path) -> None:
    path = write(tmp_path, "good\t1\n")
    with pytest.raises(UserError, match=r"unknown task 'classfication': did you mean classification"):
        read_file(path, "sst2", task="classfication")
    with pytest.raises(UserError, match=r"unknown task 'classfication': did you mean classification"):
        guess_format(path, "classfication")


def test_the_task_chooses_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path, "text,label,first,second\na,yes,b,c\n", "file.csv")
    assert read_file(path, "csv") == [Sentence("a", "yes")]
    assert read_file(path, "csv", task="pair") == [Pair("b", "c", "yes")]


def test_a_format_is_of_its_task_alone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown format 'conll'"):
        read_file(write(tmp_path, "a O\n"), "conll")


@pytest.mark.parametrize(("task", "format"), [(task, format) for task in READERS for format in READERS[task]])
def test_an_empty_file_is_one_line_in_every_format(tmp_path: Path, task: str, format: str) -> None:
    path = write(tmp_path, "")
    with pytest.raises(UserError) as caught:
        read_file(path, format, task=task)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_labels_do_not_disturb_a_format_without_labels(tmp_path: Path) -> None:
    (pair,) = read_file(write(tmp_path, "A boat.,A ship.,4.5\n"), "stsb", ["no", "yes"], "pair")
    assert pair == ScoredPair("A boat.", "A ship.", 4.5)
