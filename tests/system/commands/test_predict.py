"""``d2lbert predict`` on files: in their order, with and without labels, into JSON lines and CSV."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_support import complaint, run
from safetensors.numpy import load_file, save_file

from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)

TEXTS = ["a good film", "what, a poor plot", "fine"]


@pytest.fixture(scope="module")
def models(encoder: Path) -> dict[str, Path]:
    """A model for each task, with random weights."""
    heads = {
        "pair": BertForSequenceClassification(BertModel.from_pretrained(encoder), ["different", "same"]),
        "scores": BertForSequenceClassification(BertModel.from_pretrained(encoder), ["score"]),
        "tagging": BertForTokenClassification(BertModel.from_pretrained(encoder), ["O", "B-LOC", "I-LOC"]),
        "question_answering": BertForQuestionAnswering(BertModel.from_pretrained(encoder)),
        "multiple_choice": BertForMultipleChoice(BertModel.from_pretrained(encoder)),
    }
    folders = {}
    for name, head in heads.items():
        folders[name] = encoder.parent / name
        head.save_pretrained(folders[name])
        WordPiece.from_pretrained(encoder).save_pretrained(folders[name])
    return folders


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_file_of_lines_is_answered_in_its_order(classifier: Path, tmp_path: Path) -> None:
    lines, out = tmp_path / "texts.txt", tmp_path / "answers.jsonl"
    lines.write_text("\n".join(TEXTS) + "\n")
    command = ("predict", "classification", "--model", classifier, "--data", lines)
    result = run(*command, "--out", out)
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert result.stderr == f"note: 3 answers are in {out}\n"
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["text"] for row in rows] == TEXTS
    assert [json.loads(line) for line in run(*command).stdout.splitlines()] == rows
    typed = [word for text in TEXTS for word in ("--text", text)]
    answers = [json.loads(line) for line in run(*command[:4], *typed).stdout.splitlines()]
    assert [row["label"] for row in answers] == [row["label"] for row in rows]


def test_a_table_becomes_a_table(classifier: Path, tmp_path: Path) -> None:
    tickets, out = tmp_path / "tickets.csv", tmp_path / "new" / "answers.csv"
    tickets.write_text("id;Ticket;Kind\n" + "".join(f'{n};"{text}";unknown\n' for n, text in enumerate(TEXTS)))
    columns = ("--text-column", "ticket")
    result = run("predict", "classification", "--model", classifier, "--data", tickets, *columns, "--out", out)
    assert result.returncode == 0, result.stderr
    rows = _rows(out)
    assert [row["text"] for row in rows] == TEXTS
    for row in rows:
        both = {label: float(row[f"probability of {label}"]) for label in ("negative", "positive")}
        assert row["label"] == max(both, key=both.__getitem__)
        assert float(row["probability"]) == max(both.values())


@pytest.mark.parametrize(
    ("task", "model", "name", "content", "fields"),
    [
        ("pair", "pair", "a.csv", "first,second\na,b\n", {"first": "a", "second": "b"}),
        ("pair", "scores", "a.jsonl", '{"text": "a", "pair": "b"}', {"first": "a", "second": "b"}),
        ("tagging", "tagging", "a.jsonl", '{"words": ["In", "Oslo"]}', {"words": "In Oslo"}),
        ("tagging", "tagging", "a.txt", "In Oslo.\n", {"words": "In Oslo ."}),
        ("tagging", "tagging", "a.conll", "In\nOslo\n\n", {"words": "In Oslo"}),
        ("question_answering", "question_answering", "a.csv", "question,context\nq,in Oslo\n", {"question": "q"}),
        (
            "question_answering",
            "question_answering",
            "a.json",
            '{"data": [{"paragraphs": [{"context": "in Oslo", "qas": [{"id": "7", "question": "q"}]}]}]}',
            {"id": "7", "context": "in Oslo"},
        ),
        ("multiple_choice", "multiple_choice", "a.csv", "premise,choice0,choice1\np,x,y\n", {"choices": '["x", "y"]'}),
    ],
)
def test_every_task_answers_a_file_without_labels(
    models: dict[str, Path], tmp_path: Path, task: str, model: str, name: str, content: str, fields: dict[str, str]
) -> None:
    path, out = tmp_path / name, tmp_path / "out.csv"
    path.write_text(content)
    extra = ("--format", "conll") if name.endswith("conll") else ()
    result = run("predict", task, "--model", models[model], "--data", path, "--out", out, *extra)
    assert result.returncode == 0, result.stderr
    (row,) = _rows(out)
    assert {name: row[name] for name in fields} == fields
    answer = {"pair": "label", "scores": "score", "tagging": "tags", "multiple_choice": "choice"}.get(model, "answer")
    assert row[answer]


def test_tags_stand_beside_their_words(models: dict[str, Path]) -> None:
    result = run("predict", "tagging", "--model", models["tagging"], "--text", "In Oslo, too.")
    row = json.loads(result.stdout)
    assert row["words"] == ["In", "Oslo", ",", "too", "."]
    assert len(row["tags"]) == 5
    assert row["text"] == "In Oslo, too."


def test_a_data_set_may_be_answered(classifier: Path) -> None:
    result = run("predict", "classification", "--model", classifier, "--data", "sst2", "--split", "dev")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(rows) == 80
    assert {row["label"] for row in rows} <= {"negative", "positive"}


def test_mistakes(classifier: Path, tmp_path: Path) -> None:
    predict = ("predict", "classification", "--model", classifier)
    texts = tmp_path / "texts.csv"
    texts.write_text("text\nfine\n\u200b\n")
    assert "nothing to answer: give --text TEXT, or --data FILE" in complaint(*predict)
    assert "--data beside --text" in complaint(*predict, "--text", "a", "--data", texts)
    assert "texts.csv, line 3: the text is empty" in complaint(*predict, "--data", texts)
    assert "texts.csv exists: choose a new file" in complaint(*predict, "--data", texts, "--out", texts)
    assert "call it NAME.jsonl or NAME.csv" in complaint(*predict, "--data", texts, "--out", tmp_path / "answers")
    assert "no column 'body'" in complaint(*predict, "--data", texts, "--text-column", "body")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.csv"]


def test_a_model_of_numbers_that_are_none_gives_no_json(encoder: Path, tmp_path: Path) -> None:
    model = BertForSequenceClassification(BertModel.from_pretrained(encoder), ["negative", "positive"])
    model.save_pretrained(tmp_path / "model")
    WordPiece.from_pretrained(encoder).save_pretrained(tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    weights = {name: np.full_like(value, np.nan) for name, value in weights.items()}
    save_file(weights, tmp_path / "model" / "model.safetensors")
    line = complaint("predict", "classification", "--model", tmp_path / "model", "--text", "a")
    assert "NaN or infinity" in line
