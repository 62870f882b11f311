"""``d2lbert export`` as a user runs it: the written folder answers and scores like the model."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from cli_support import complaint, run
from export_support import make_adapters

from d2lbert.torch.heads import BertForSequenceClassification, BertForTokenClassification

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
    assert line == "d2lbert: unknown format 'onxx': did you mean onnx or onnx-web or onnx-int8?"
    assert "is not empty: choose a new folder" in complaint("export", "--model", "minilm-sst2", "--out", folder)
    assert "not of BertForTokenClassification" in complaint("predict", "tagging", "--model", folder, "--text", TEXT)
    assert "is exported already: name the model" in complaint("export", "--model", folder, "--out", tmp_path / "out")
    assert "is of one model: give one --model" in complaint(
        "export", "--model", "minilm-sst2", "--model", "minilm-wnut17", "--out", tmp_path / "out"
    )
    web = ("export", "--model", "minilm-sst2", "--format", "onnx-web", "--out", tmp_path / "out")
    assert "--packed is not for --format onnx-web: a page reads one text" in complaint(*web, "--packed")
    assert "given twice; write NAME=FOLDER" in complaint(*web, "--model", "minilm-sst2")
    assert not (tmp_path / "out").exists()


def test_a_program_of_pytorch_is_not_run_here(classifier: Path, tmp_path: Path) -> None:
    # Reading one may run code that it brings along.
    result = run("export", "--model", classifier, "--format", "torch", "--out", tmp_path / "program")
    assert result.returncode == 0, result.stderr
    line = complaint("predict", "classification", "--model", tmp_path / "program", "--text", TEXT)
    assert line.endswith("is for torch.export.load: name the model that it was made of, or one in ONNX")


def test_without_tvm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, classifier: Path, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "tvm" else find(name, *more))
    line = complaint("export", "--model", classifier, "--format", "tvm", "--out", tmp_path / "out")
    assert line == "d2lbert: --format tvm needs tvm: run pip install apache-tvm"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_library_of_tvm_is_written_and_not_run_here(classifier: Path, tmp_path: Path) -> None:
    pytest.importorskip("tvm", reason="TVM is not installed: pip install apache-tvm")
    result = run("export", "--model", classifier, "--format", "tvm", "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    size = (tmp_path / "out" / "model.so").stat().st_size
    assert result.stderr.splitlines() == [f"note: {tmp_path / 'out' / 'model.so'} has {size / 1e6:.1f} MB"]
    line = complaint("predict", "classification", "--model", tmp_path / "out", "--text", TEXT)
    assert "is for d2lbert.deploy.tvm.CompiledModel: name the model that it was made of" in line


def test_a_folder_for_browsers_has_one_encoder_and_small_adapters(encoder: Path, tmp_path: Path) -> None:
    make_adapters(encoder, tmp_path / "mood", BertForSequenceClassification, "bad", "good")
    make_adapters(encoder, tmp_path / "names", BertForTokenClassification, "O", "B-person", "I-person")
    models = ("--model", f"sentiment={tmp_path / 'mood'}", "--model", f"entities={tmp_path / 'names'}")
    result = run("export", *models, "--format", "onnx-web-int8", "--out", tmp_path / "web")
    assert result.returncode == 0, result.stderr
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "web").iterdir()}
    for name in ("model.onnx", "sentiment.safetensors", "entities.safetensors"):
        assert f"{name} has {sizes[name] / 1e6:.2f} MB" in result.stderr
    assert sizes["sentiment.safetensors"] + sizes["entities.safetensors"] < sizes["model.onnx"] / 20
    assert sorted(json.loads((tmp_path / "web" / "browser.json").read_text())["tasks"]) == ["entities", "sentiment"]
    line = complaint("predict", "classification", "--model", tmp_path / "web", "--text", TEXT)
    assert line.endswith("is for browsers: name the model that it was made of")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The classifier of MiniLM as a graph of MXNet in 8 bits."""
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    room = tmp_path_factory.mktemp("symbol")
    (room / "texts.txt").write_text("a warm and funny film\n\ndull from start to end\n")
    given = ("export", "--model", "minilm-sst2", "--format", "mxnet-int8", "--texts", room / "texts.txt")
    result = run(*given, "--out", room / "out")
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert "model-0000.params has" in result.stderr
    return room / "out"


def test_a_graph_of_mxnet_answers_like_the_model(graph: Path) -> None:
    given = ("predict", "classification", "--model", graph, "--text", TEXT, "--text", "dull")
    found = [json.loads(line) for line in run(*given, "--edition", "mxnet").stdout.splitlines()]
    assert [answer["label"] for answer in found] == ["positive", "negative"]
    assert "is a graph of MXNet: add --edition mxnet" in complaint(*given)
    assert "not of BertForTokenClassification" in complaint(
        "predict", "tagging", "--model", graph, "--text", TEXT, "--edition", "mxnet"
    )


def test_mistakes_with_mxnet_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    given = ("export", "--model", "minilm-sst2", "--out", tmp_path / "out", "--format")
    assert "--format mxnet-int8 needs --texts FILE" in complaint(*given, "mxnet-int8")
    refused = complaint(*given, "mxnet", "--texts", tmp_path / "empty.txt")
    assert "--texts is not for --format mxnet: only onnx-int8 and mxnet-int8 are calibrated" in refused
    assert "--packed is not for --format mxnet" in complaint(*given, "mxnet", "--packed")
    pytest.importorskip("d2lbert.mxnet", reason="mxnet is not installed", exc_type=ImportError)
    assert "no batch to calibrate with" in complaint(*given, "mxnet-int8", "--texts", tmp_path / "empty.txt")
    assert not (tmp_path / "out").exists()
