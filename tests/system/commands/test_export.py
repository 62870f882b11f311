"""``d2lbert export`` as a user runs it: the written folder answers and scores like the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_support import complaint, run

TEXT = "a warm and funny film"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The int8 classifier of MiniLM."""
    out = tmp_path_factory.mktemp("export") / "int8"
    result = run("export", "--model", "minilm-sst2", "--format", "onnx-int8", "--out", out)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert "model.onnx has 23.0 MB" in result.stderr
    return out


def test_it_answers_like_the_model(folder: Path) -> None:
    answers = [
        json.loads(run("predict", "classification", "--model", model, "--text", TEXT).stdout)
        for model in ("minilm-sst2", folder)
    ]
    assert answers[0]["label"] == answers[1]["label"] == "positive"
    assert answers[0]["probabilities"]["positive"] == pytest.approx(answers[1]["probabilities"]["positive"], abs=0.01)


def test_it_is_scored_like_the_model(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "dev.csv"
    rows = [("a warm and funny film", "positive"), ("dull", "negative"), ("a mess", "negative"), ("great", "positive")]
    data.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    scored = run("evaluate", "classification", "--model", folder, "--data", data, "--predictions", tmp_path / "p.jsonl")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout.splitlines()[-1])["accuracy"] == 1.0
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 4


def test_mistakes_are_one_line(folder: Path, tmp_path: Path) -> None:
    line = complaint("export", "--model", "minilm-sst2", "--format", "onxx", "--out", tmp_path / "out")
    assert line == "d2lbert: unknown format 'onxx': did you mean onnx or onnx-int8?"
    assert "is not empty: choose a new folder" in complaint("export", "--model", "minilm-sst2", "--out", folder)
    assert "not of BertForTokenClassification" in complaint("predict", "tagging", "--model", folder, "--text", TEXT)
    assert "is exported already: name the model" in complaint("export", "--model", folder, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_program_of_pytorch_is_not_run_here(tmp_path: Path) -> None:
    # Reading one may run code that it brings along.
    result = run("export", "--model", "minilm-sst2", "--format", "torch", "--out", tmp_path / "program")
    assert result.returncode == 0, result.stderr
    line = complaint("predict", "classification", "--model", tmp_path / "program", "--text", TEXT)
    assert line.endswith("is for torch.export.load: name the model that it was made of, or one in ONNX")
