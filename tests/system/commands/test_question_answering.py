"""``d2lbert finetune``, ``evaluate`` and ``predict`` for question answering, and how they complain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import complaint, run

from d2lbert import metrics

SMALL = ("--epochs", "1", "--max-length", "64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("questions")


@pytest.fixture(scope="module")
def question_file(folder: Path) -> Path:
    """Two questions that the text answers, and one that it does not."""
    text = "AMLC 2019 is held in Seattle."
    entries = [
        {"id": "1", "question": "Where is AMLC held?", "answers": [{"text": "Seattle", "answer_start": 21}]},
        {"id": "2", "question": "When is AMLC held?", "answers": [{"text": "2019", "answer_start": 5}]},
        {"id": "3", "question": "Who is there?", "answers": [], "is_impossible": True},
    ]
    path = folder / "questions.json"
    path.write_text(json.dumps({"data": [{"title": "AMLC", "paragraphs": [{"context": text, "qas": entries}]}]}))
    return path


@pytest.fixture(scope="module")
def trained(encoder: Path, question_file: Path, folder: Path) -> Path:
    out = folder / "trained"
    data_options = ("--train", question_file, "--dev", question_file)
    result = run("finetune", "question_answering", "--model", encoder, *data_options, "--out", out, "--resume", *SMALL)
    assert result.returncode == 0, result.stderr
    assert "dev f1" in result.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["questions.json", "trained"]  # no checkpoint is left
    return out


def test_the_threshold_tuned_on_dev_is_kept(trained: Path, question_file: Path) -> None:
    tuned = json.loads((trained / "training.json").read_text())[0]
    assert json.loads((trained / "config.json").read_text())["null_threshold"] == tuned["best_threshold"]
    result = run("evaluate", "question_answering", "--model", trained, "--data", question_file, "--max-length", "64")
    scores = json.loads(result.stdout.splitlines()[-1])
    assert scores["f1"] == pytest.approx(tuned["best_f1"])
    assert set(scores) == {
        "f1", "exact_match", "has_answer_f1", "no_answer_accuracy", "best_f1", "best_threshold", "examples",
    }  # fmt: skip


def test_every_answer_is_written(trained: Path, question_file: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    command = ("evaluate", "question_answering", "--model", trained, "--data", question_file, "--predictions", answers)
    scores = json.loads(run(*command).stdout.splitlines()[-1])
    rows = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [row["example"]["id"] for row in rows] == ["1", "2", "3"]
    golds = [[answer["text"] for answer in row["example"]["answers"]] or [""] for row in rows]
    assert metrics.squad(golds, [row["answer"] for row in rows])["f1"] == pytest.approx(scores["f1"])
    for row in rows:
        start = row["start"]
        assert row["answer"] == (row["example"]["context"][start : start + len(row["answer"])] if start >= 0 else "")


def test_predict_asks_a_text(trained: Path) -> None:
    text = "AMLC 2019  is held in Seattle."
    result = run("predict", "question_answering", "--model", trained, "--text", text, "--pair", "Where is AMLC held?")
    prediction = json.loads(result.stdout)
    assert (prediction["text"], prediction["pair"]) == (text, "Where is AMLC held?")
    assert {entry["answer"] for entry in prediction["n_best"]} >= {"", prediction["answer"]}
    assert all(entry["answer"] in text for entry in prediction["n_best"])
    assert sum(entry["probability"] for entry in prediction["n_best"]) <= 1 + 1e-6


def test_samples_of_squad_1(encoder: Path, tmp_path: Path) -> None:
    """All questions have an answer, so no threshold is kept and no answer is empty; long texts come in windows."""
    out, names = tmp_path / "out", ("--train", "squadshifts", "--dev", "squadshifts")
    result = run("finetune", "question_answering", "--model", encoder, *names, "--out", out, *SMALL)
    assert result.returncode == 0, result.stderr
    assert json.loads((out / "config.json").read_text())["null_threshold"] is None
    command = ("evaluate", "question_answering", "--model", out, "--data", "xquad", "--split", "test")
    scores = json.loads(run(*command, "--max-length", "48").stdout.splitlines()[-1])
    assert set(scores) == {"f1", "exact_match", "examples"}
    rows = [json.loads(line) for line in (out / "predictions-xquad-test.jsonl").read_text().splitlines()]
    assert all(row["answer"] and row["start"] >= 0 for row in rows)


def test_mistakes(encoder: Path, trained: Path, question_file: Path, classifier: Path, tmp_path: Path) -> None:
    task = "question_answering"
    assert "one --pair for each --text" in complaint("predict", task, "--model", trained, "--text", "a")
    assert "--pair is empty" in complaint("predict", task, "--model", trained, "--text", "a", "--pair", " ")
    assert "not of BertForQuestion" in complaint("predict", task, "--model", classifier, "--text", "a", "--pair", "b")
    assert "not of BertForSequence" in complaint("evaluate", "pair", "--model", trained, "--data", "mrpc")
    assert "lacks 2 of 2 tensors" in complaint("evaluate", task, "--model", encoder, "--data", "xquad")
    assert "holds no questions about texts" in complaint("evaluate", task, "--model", trained, "--data", "sst2")
    assert "takes 3 to 512 tokens" in complaint("evaluate", task, "--model", trained, "--data", question_file,
                                                "--max-length", "513")  # fmt: skip
    assert "no room is left" in complaint("evaluate", task, "--model", trained, "--data", question_file,
                                          "--max-length", "6")  # fmt: skip
    moved = tmp_path / "moved.json"
    moved.write_text(question_file.read_text().replace('"answer_start": 21', '"answer_start": 20'))
    line = complaint("finetune", task, "--model", encoder, "--train", moved, "--dev", moved, "--out", tmp_path / "out")
    assert "question 1: the answer 'Seattle' is not at character 20; set answer_start to 21" in line
    assert not (tmp_path / "out").exists()
