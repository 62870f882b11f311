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


RATED = [{"first": "a", "second": "b", "similarity": 3.8}, {"first": "c", "second": "d", "similarity": "4"}]


def test_scores_in_a_column_of_any_name(tmp_path: Path) -> None:
    columns = Columns(score_column="Similarity")
    expected = [ScoredPair("a", "b", 3.8), ScoredPair("c", "d", 4.0)]
    assert read(tmp_path, "pair", *RATED, columns=columns) == expected
    assert read(tmp_path, "pair", *RATED, columns=columns, labels=["score"]) == expected
    assert read(tmp_path, "pair", *RATED, columns=Columns(label_column="similarity"), labels=["score"]) == expected
    unlabelled = [ScoredPair("a", "b"), ScoredPair("c", "d")]
    assert read(tmp_path, "pair", *RATED, columns=columns, labelled=False) == unlabelled
    both = [{**row, "label": "same"} for row in RATED]
    assert read(tmp_path, "pair", *both, columns=columns) == expected
    assert read(tmp_path, "pair", *both) == [Pair("a", "b", "same"), Pair("c", "d", "same")]


@pytest.mark.parametrize(
    ("task", "columns", "labels", "message"),
    [
        ("pair", Columns(label_column="similarity"), None, "line 1: the label '3.8' is a number with a fraction, as"),
        ("pair", Columns(score_column="closeness"), None, "no column 'closeness' .*; name the column with --score-col"),
        ("pair", Columns(score_column="similarity"), ["no", "yes"], "this one gives labels: give --label-column"),
        ("classification", Columns(score_column="similarity"), None, "is for the task pair, not for classification"),
    ],
)
def test_a_score_is_no_label(
    task: str, columns: Columns, labels: list[str] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, task, *RATED, columns=columns, labels=labels)
    assert "\n" not in str(caught.value)


def test_numbers_may_be_labels_of_pairs(tmp_path: Path) -> None:
    rows = [{"first": "a", "second": "b", "label": label} for label in (1, "0", "2.0", 3.0)]
    assert [pair.label for pair in read(tmp_path, "pair", *rows)] == ["1", "0", "2.0", "3"]
    half = {"first": "a", "second": "b", "label": 0.5}
    assert read(tmp_path, "pair", half, labels=["0.5", "1"]) == [Pair("a", "b", "0.5")]


def test_tagged_sentences(tmp_path: Path) -> None:
    expected = [TaggedSentence(("Oslo", "lies", "here"), ("B-LOC", "O", "O"))]
    words, tags = ["Oslo", "lies", "here"], ["B-LOC", "O", "O"]
    assert read(tmp_path, "tagging", {"words": words, "tags": tags}) == expected
    assert read(tmp_path, "tagging", {"tokens": "Oslo lies  here", "ner_tags": "I-LOC O O"}) == expected
    split = TaggedSentence(("Oslo's", "here", "."))
    assert read(tmp_path, "tagging", {"Text": "Oslo's here."}, labelled=False) == [split]
    assert read(tmp_path, "tagging", {"words": ["Oslo's."]}, labelled=False) == [TaggedSentence(("Oslo's.",))]


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"words": "Oslo 's u.s. (x)", "tags": "O O O O"}, Columns()),
        ({"tokens": "Oslo 's u.s. (x)", "labels": "O O O O"}, Columns()),
        ({"text": "Oslo 's u.s. (x)", "tags": "O O O O"}, Columns()),
        ({"text": "Oslo 's u.s. (x)", "pos": "O O O O"}, Columns(label_column="pos")),
        ({"body": "Oslo 's u.s. (x)", "tags": "O O O O"}, Columns(text_column="body")),
    ],
)
def test_words_to_predict_are_those_that_were_learned(row: dict[str, Any], columns: Columns, tmp_path: Path) -> None:
    (learned,) = read(tmp_path, "tagging", row, columns=columns)
    (asked,) = read(tmp_path, "tagging", row, columns=columns, labelled=False)
    assert asked.words == learned.words == ("Oslo", "'s", "u.s.", "(x)")


def test_zero_and_one_are_negative_and_positive_and_no_other_names(tmp_path: Path) -> None:
    row = {"text": "a", "label": 1}
    for labels in (["negative", "positive"], ["positive", "negative"]):
        assert read(tmp_path, "classification", row, labels=labels) == [Sentence("a", "positive")]
    for labels in (["neg", "pos"], ["negative", "neutral", "positive"]):
        with pytest.raises(UserError, match=r"the label '1' is not one of neg.*; write these names"):
            read(tmp_path, "classification", row, labels=labels)
    assert read(tmp_path, "classification", row) == [Sentence("a", "1")]


def test_words_without_tags_stand_between_spaces_too(tmp_path: Path) -> None:
    expected = [TaggedSentence(("Oslo", "'s", "u.s."))]
    for name, columns in (("words", Columns()), ("tokens", Columns()), ("body", Columns(text_column="body"))):
        row = {name: "Oslo 's u.s."}
        assert read(tmp_path, "tagging", row, columns=columns, labelled=False) == expected


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
        ({"answers": {"text": "Oslo", "answer_start": 24}}, (Answer("Oslo", 24),)),
        ({"is_impossible": True}, ()),
        ({"is_impossible": 1, "answer": ""}, ()),
        ({"is_impossible": "True", "answer": "Oslo"}, ()),
        ({"is_impossible": False, "answer": "Oslo"}, (Answer("Oslo", 5),)),
    ],
)
def test_questions(tmp_path: Path, fields: dict[str, Any], answers: tuple[Answer, ...]) -> None:
    row = {"id": 3, "question": " Where? ", "context": TEXT, **fields}
    assert read(tmp_path, "question_answering", row) == [Question("Where?", TEXT, answers, "3")]
    assert read(tmp_path, "question_answering", row, labelled=False) == [Question("Where?", TEXT, None, "3")]


@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_a_row_that_says_nothing_of_its_answer_is_no_row_without_one(format: str, tmp_path: Path) -> None:
    asked = {"question": "?", "context": "In Oslo."}
    rows = [{**asked, "answer": "Oslo"}, {**asked, "answers": ["In"]}, {**asked, "answer": None}, asked]
    path = tmp_path / f"rows.{format}"
    path.write_text(json.dumps(rows) if format == "json" else "\n".join(map(json.dumps, rows)))
    faults: list[str] = []
    found = read_file(path, format, task="question_answering", faults=faults)
    assert [question.answers for question in found] == [(Answer("Oslo", 3),), (Answer("In", 0),), ()]
    place = "item" if format == "json" else "line"
    remedy = 'write "answer": "" if the text does not answer the question'
    assert faults == [f"{path}, {place} 4: no 'answer'; {remedy}"]
    assert len(read_file(path, format, task="question_answering", labelled=False)) == 4
    columns = Columns(label_column="reply")
    named = read(tmp_path, "question_answering", {**asked, "reply": "", "answer": "x", "answers": 3}, columns=columns)
    assert named == [Question("?", "In Oslo.", ())]


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
    ("row", "answer"),
    [
        ({"choices": ["1", "0"], "label": 1}, 1),  # a number beside texts is a place
        ({"choices": ["1", "0"], "label": 0.0}, 0),
        ({"choice1": "2", "choice2": "1", "label": 2}, 1),
        ({"choices": ["7", "8"], "label": "8"}, 1),  # a text, that of a choice
        ({"choices": [7, 8], "label": 8}, 1),  # a number among numbers
        ({"choices": [0, 1], "label": 1}, 1),
    ],
)
def test_the_number_of_a_choice_and_a_choice_that_is_a_number(row: dict[str, Any], answer: int, tmp_path: Path) -> None:
    (found,) = read(tmp_path, "multiple_choice", {"premise": "p", **row})
    assert found.answer == answer


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
        ("multiple_choice", {"premise": "p", "choices": ["x", "y"], "label": 2}, "'2' is none of 0, 1; correct it"),
        ("multiple_choice", {"premise": "p", "choices": ["2", "3"], "label": 2}, "'2' is none of 0, 1; correct it"),
        ("multiple_choice", {"premise": "p", "choices": ["x", "y"], "label": "z"}, "'z' is neither one of 0, 1 nor a"),
        (
            "multiple_choice",
            {"premise": "p", "choices": ["1", "0"], "label": "0"},
            "'0' is the number of one choice and",
        ),
        ("multiple_choice", {"premise": "p", "choices": ["x", "y"], "label": True}, "'true' is neither one of 0, 1"),
        (
            "classification",
            {"text": "a", "label": ["x", "y"]},
            r"the list \['x', 'y'\] where one text or number is wanted; write one",
        ),
        ("classification", {"text": "a", "label": {"x": 1}}, "the object {'x': 1} where one text or number is wanted"),
        ("classification", {"text": ["a"], "label": "x"}, r"the list \['a'\] where"),
        ("pair", {"first": "a", "second": "b", "label": [1]}, r"the list \[1\] where"),
        ("pair", {"first": "a", "second": "b", "score": [1]}, r"the list \[1\] where"),
        ("tagging", {"words": ["a", ["b"]], "tags": ["O", "O"]}, r"the list \['b'\] where"),
        ("multiple_choice", {"premise": "p", "choices": ["x", ["y"]], "label": 0}, r"the list \['y'\] where"),
        ("question_answering", {"question": "?", "context": "ab"}, "no column 'answer' or 'answers'"),
        (
            "question_answering",
            {"question": "?", "context": "ab", "is_impossible": False, "answer": ""},
            "no answer, and is_impossible is false; write the answer, or true",
        ),
        (
            "pair",
            {"first": "a", "second": "b", "closeness": 3.8},
            "name the column with --label-column or --score-column",
        ),
        ("question_answering", {"question": "?", "context": "ab", "is_impossible": False}, "no 'answer'; write \"an"),
        ("question_answering", {"question": "?", "context": "ab", "answers": {}}, "the answer '' does not occur"),
        (
            "question_answering",
            {"question": "?", "context": "ab", "answer": "a", "answers": ["b"]},
            "'answer' beside 'answers'; remove one of them",
        ),
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
