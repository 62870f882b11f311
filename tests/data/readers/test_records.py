"""From rows to examples: the columns of each task, their other names, and the faults of a row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.data import (
    Answer,
    ChoiceQuestion,
    Columns,
    Pair,
    Question,
    ScoredPair,
    Sentence,
    TaggedSentence,
    read_file,
)
from d2lbert.data.readers.records import MAKERS
from d2lbert.tasks.table import NAMED


def read(folder: Path, task: str, *rows: dict[str, Any], **options: Any) -> list[Any]:
    """Read rows, written as JSON lines."""
    path = folder / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return read_file(path, "jsonl", task=task, **options)


def test_every_task_can_be_read_from_a_table() -> None:
    assert set(MAKERS) == set(NAMED)


def test_sentences(tmp_path: Path) -> None:
    rows = [{"Text": " a ", "LABEL": "x"}, {"Text": 7, "LABEL": 1.0}, {"Text": "c", "LABEL": False}]
    expected = [Sentence("a", "x"), Sentence("7", "1"), Sentence("c", "false")]
    assert read(tmp_path, "classification", *rows) == expected
    other = [{"ticket": "a", "kind": "x"}]
    columns = Columns(text_column="ticket", label_column="Kind")
    assert read(tmp_path, "classification", *other, columns=columns) == [Sentence("a", "x")]
    assert read(tmp_path, "classification", {"text": "a", "label": 1}, labels=["0", "1"]) == [Sentence("a", "1")]


@pytest.mark.parametrize("names", [("first", "second"), ("premise", "hypothesis"), ("Question", "Sentence")])
def test_pairs(tmp_path: Path, names: tuple[str, str]) -> None:
    row = {names[0]: "a", names[1]: "b"}
    assert read(tmp_path, "pair", {**row, "label": "same"}) == [Pair("a", "b", "same")]
    assert read(tmp_path, "pair", {**row, "Score": "4.5"}) == [ScoredPair("a", "b", 4.5)]
    assert read(tmp_path, "pair", {**row, "label": 3}, labels=["score"]) == [ScoredPair("a", "b", 3.0)]
    assert read(tmp_path, "pair", row, labelled=False) == [Pair("a", "b")]
    assert read(tmp_path, "pair", row, labelled=False, labels=["score"]) == [ScoredPair("a", "b")]


def test_the_columns_of_a_pair_may_be_named(tmp_path: Path) -> None:
    columns = Columns(text_column="mine", pair_column="yours", label_column="verdict")
    rows = [{"yours": "b", "mine": "a", "verdict": "same"}]
    assert read(tmp_path, "pair", *rows, columns=columns) == [Pair("a", "b", "same")]


def test_tagged_sentences(tmp_path: Path) -> None:
    expected = [TaggedSentence(("Oslo", "lies", "here"), ("B-LOC", "O", "O"))]
    words, tags = ["Oslo", "lies", "here"], ["B-LOC", "O", "O"]
    assert read(tmp_path, "tagging", {"words": words, "tags": tags}) == expected
    assert read(tmp_path, "tagging", {"tokens": "Oslo lies  here", "ner_tags": "I-LOC O O"}) == expected
    split = TaggedSentence(("Oslo's", "here", "."))
    assert read(tmp_path, "tagging", {"text": "Oslo's here."}, labelled=False) == [split]
    assert read(tmp_path, "tagging", {"words": ["Oslo's."]}, labelled=False) == [TaggedSentence(("Oslo's.",))]


TEXT = "  In Oslo, and again in Oslo. "


@pytest.mark.parametrize(
    ("fields", "answers"),
    [
        ({"answer": "Oslo"}, (Answer("Oslo", 5),)),
        ({"answer": "Oslo", "answer_start": 24}, (Answer("Oslo", 24),)),
        ({"answer": "Oslo", "answer_start": None}, (Answer("Oslo", 5),)),
        ({"answer": ""}, ()),
        ({"answer": None}, ()),
        ({"answers": []}, ()),
        ({"answers": ["In", "Oslo"]}, (Answer("In", 2), Answer("Oslo", 5))),
        ({"answers": {"text": ["Oslo"], "answer_start": [24]}}, (Answer("Oslo", 24),)),
        ({"answers": {"text": [], "answer_start": []}}, ()),
        ({"answers": {"text": ["Oslo"]}}, (Answer("Oslo", 5),)),
        ({"answers": [{"text": "Oslo", "answer_start": "24"}]}, (Answer("Oslo", 24),)),
    ],
)
def test_questions(tmp_path: Path, fields: dict[str, Any], answers: tuple[Answer, ...]) -> None:
    row = {"id": 3, "question": " Where? ", "context": TEXT, **fields}
    assert read(tmp_path, "question_answering", row) == [Question("Where?", TEXT, answers, "3")]
    assert read(tmp_path, "question_answering", row, labelled=False) == [Question("Where?", TEXT, None, "3")]


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"choices": ["x", "y"], "label": 1}, 1),
        ({"choices": "x|y", "label": "y"}, 1),
        ({"choice0": "x", "choice1": "y", "label": 1}, 1),
        ({"choice1": "x", "choice2": "y", "label": 1}, 0),  # the number in the column's name
        ({"Ending 2": "y", "Ending 1": "x", "label": "2"}, 1),
    ],
)
def test_choices(tmp_path: Path, row: dict[str, Any], answer: int) -> None:
    expected = ChoiceQuestion("p", ("x", "y"), answer)
    assert read(tmp_path, "multiple_choice", {"premise": "p", **row}) == [expected]
    unlabelled = {name: value for name, value in row.items() if name != "label"}
    found = read(tmp_path, "multiple_choice", {"premise": "p", **unlabelled}, labelled=False)
    assert found == [ChoiceQuestion("p", ("x", "y"))]


@pytest.mark.parametrize(
    ("task", "row", "message"),
    [
        ("classification", {"text": None, "label": "x"}, "the text is empty"),
        ("classification", {"text": "a", "label": None}, "the label is empty"),
        ("classification", {"text": "a"}, "no column 'label' or 'labels' .*; name the column with --label-column"),
        ("pair", {"first": "a", "second": "\u200b", "label": "x"}, "the text is empty"),
        ("pair", {"first": "a", "label": "x"}, "no column 'second' .*; name the column with --pair-column"),
        ("pair", {"first": "a", "second": "b", "score": "high"}, "the score 'high' is not a number"),
        ("tagging", {"words": ["a"], "tags": ["O", "O"]}, "1 words but 2 tags; give one tag for each word"),
        ("tagging", {"words": [], "tags": []}, "no words, or an empty one"),
        ("tagging", {"words": ["a", " "], "tags": ["O", "O"]}, "no words, or an empty one"),
        ("tagging", {"words": ["a"], "tags": [3]}, "the tag '3' is not O, nor .*; write tags such as O, B-PER"),
        ("question_answering", {"question": "?", "context": "a", "answer": "b"}, "'b' does not occur in its text"),
        ("question_answering", {"question": "?", "context": " ", "answer": ""}, "the text is empty"),
        ("question_answering", {"question": "", "context": "a", "answer": ""}, "the question is empty"),
        (
            "question_answering",
            {"question": "?", "context": "ab", "answer": "b", "answer_start": "9" * 5000},
            "the answer 'b' is not at character 9+; write 1$",
        ),
        ("multiple_choice", {"premise": "p", "choices": ["x"], "label": 0}, "fewer than two choices"),
        ("multiple_choice", {"premise": "p", "choices": ["x", ""], "label": 0}, "the choice is empty"),
        (
            "multiple_choice",
            {"premise": "p", "choices": [2, 1, 0], "label": 0},
            "'0' is the number of one choice and the",
        ),
        ("multiple_choice", {"premise": "p", "choices": ["x", "y"], "label": 2}, "'2' is neither one of 0, 1 nor a"),
        ("multiple_choice", {"premise": "p", "choice0": "x", "choice2": "y", "label": 0}, "have a gap"),
    ],
)
def test_faults_name_the_line_and_the_remedy(tmp_path: Path, task: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, task, row)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path}/rows.jsonl, line 1: ")
    assert ";" in text
    assert "\n" not in text


def test_tags_outside_those_of_the_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the tag 'B-PER' is not one of O, B-LOC, I-LOC"):
        read(tmp_path, "tagging", {"words": ["a"], "tags": ["B-PER"]}, labels=["O", "B-LOC", "I-LOC"])


def test_the_choices_may_be_named_where_others_are_numbered(tmp_path: Path) -> None:
    row = {"premise": "p", "choice0": "a", "choice1": "b", "Offered": ["x", "y"], "label": "y"}
    found = read(tmp_path, "multiple_choice", row, columns=Columns(pair_column="offered"))
    assert found == [ChoiceQuestion("p", ("x", "y"), 1)]


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_what_only_a_later_object_says_is_read(format: str, tmp_path: Path) -> None:
    rows = [{"question": "?", "context": "Oslo, Oslo", "answer": "Oslo", **more} for more in ({}, {"answer_start": 6})]
    path = tmp_path / f"rows.{format}"
    path.write_text(json.dumps(rows) if format == "json" else "\n".join(map(json.dumps, rows)))
    found = read_file(path, format, task="question_answering")
    assert [question.answers for question in found] == [(Answer("Oslo", 0),), (Answer("Oslo", 6),)]
