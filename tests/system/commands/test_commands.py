"""The command line, as a user meets it: what works, and one line for every mistake."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import complaint, finetune_command, run

import d2lbert
from d2lbert.zoo.table import entries


def test_named_data_falls_back_on_the_sample_and_says_so(classifier: Path) -> None:
    result = run("evaluate", "classification", "--model", classifier, "--data", "sst2")
    assert result.returncode == 0, result.stderr
    assert "warning: sst2: a small SAMPLE" in result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["examples"] == 80


def test_help_and_data_list_need_no_framework() -> None:
    program = (
        "import sys; from d2lbert.cli import app\n"
        "app(['data', 'list'], standalone_mode=False)\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "False"
    assert any(line.startswith("sst2 ") for line in result.stdout.splitlines())


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"d2lbert {d2lbert.__version__}\n")
    assert "--version" in run("--help").stdout


def test_models_are_listed_one_a_line_without_a_framework() -> None:
    program = (
        "import sys; from d2lbert.cli import app\napp(['models'], standalone_mode=False)\nprint('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    *lines, framework = result.stdout.splitlines()
    assert framework == "False"
    assert len(lines) == len({line.split()[0] for line in lines}) == len(entries())
    chinese = next(line for line in lines if line.startswith("bert_12_768_12:wiki_cn_cased "))
    assert chinese.split() == ["bert_12_768_12:wiki_cn_cased", "412", "MB", "hub", "[Apache-2.0]"]


def test_models_of_the_zoo_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path))
    start = ("finetune", "pair", "--train", "mrpc", "--dev", "mrpc", "--out", tmp_path / "out", "--model")
    assert "D2LBERT_OFFLINE=1 forbids the network; get model.safetensors (412 MB)" in complaint(
        *start, "bert_12_768_12:wiki_cn_cased"
    )
    assert "several data sets" in complaint(*start, "bert_12_768_12")
    assert "no weights for bert_12_768_12:clinicalbert_uncased" in complaint(
        *start, "bert_12_768_12:clinicalbert_uncased"
    )
    for name in ("elmo-small", "gpt2_117m"):  # refused before any download
        assert f"{name} is no BERT, and only BERTs are fine-tuned here" in complaint(*start, name)
    assert not (tmp_path / "out").exists()


def test_long_text_is_cut_with_a_note(classifier: Path) -> None:
    result = run("predict", "classification", "--model", classifier, "--text", "good film " * 10_000)
    assert result.returncode == 0, result.stderr
    assert "warning: 1 of 1 texts cut after 128 tokens" in result.stderr
    assert json.loads(result.stdout)["label"] in ("negative", "positive")


def test_words_of_the_command_line() -> None:
    assert "Missing command" in complaint()
    assert "Missing argument" in complaint("predict")
    assert "unknown task" in complaint("predict", "clasification", "--model", "x", "--text", "y")
    assert "did you mean sst2" in complaint("data", "fetch", "sst22")


def test_models_that_are_not_there(classifier: Path, encoder: Path, tmp_path: Path) -> None:
    text = ("--text", "good")
    assert "not a model folder" in complaint("predict", "classification", "--model", tmp_path / "none", *text)
    assert "did you mean minilm" in complaint("predict", "classification", "--model", "minlm", *text)
    assert "names no labels" in complaint("predict", "classification", "--model", encoder, *text)
    assert "cannot read" in complaint("predict", "classification", "--model", tmp_path, *text)


def test_empty_text(classifier: Path) -> None:
    predict = ("predict", "classification", "--model", classifier, "--text")
    assert "--text is empty" in complaint(*predict, "  ")
    # A zero-width space is no white space to Python, but the tokenizer drops it.
    assert "holds nothing that the tokenizer keeps" in complaint(*predict, "\u200b")


def test_vocabulary_that_does_not_fit_the_weights(classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(classifier, folder)
    with (folder / "vocab.txt").open("a") as vocabulary:
        vocabulary.write("onemorepiece\n")
    line = complaint("predict", "classification", "--model", folder, "--text", "good")
    assert "the tokenizer has 30,523 pieces, the model has 30,522 embeddings" in line


def test_damaged_weights_and_another_architecture(classifier: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(classifier, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "damaged" in complaint("predict", "classification", "--model", folder, "--text", "good")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    assert "model_type is 'roberta'" in complaint("predict", "classification", "--model", folder, "--text", "good")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,lable\na,positive\n", "label"),
        ("text,label\ngood,positive\n,negative\n", "empty"),
        ("text,label\ngood,positive\nbad\n", "line 3"),
        ("text,label\ngood,positive\nbad,positive\n", "needs two labels"),
        ("", "no column 'text'"),
        ("text,label\n", "no examples"),
    ],
)
def test_files_that_cannot_be_read(encoder: Path, tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "train.csv"
    path.write_text(content)
    line = complaint(*finetune_command(encoder, path, tmp_path / "out"))
    assert message in line
    assert not (tmp_path / "out").exists()


def test_label_outside_the_set(classifier: Path, tmp_path: Path) -> None:
    path = tmp_path / "dev.csv"
    path.write_text("text,label\ngood,positive\nbad,awful\n")
    line = complaint("evaluate", "classification", "--model", classifier, "--data", path)
    assert "awful" in line
    assert "dev.csv" in line


def test_missing_file_and_unknown_set(encoder: Path, tmp_path: Path) -> None:
    assert "no file" in complaint(*finetune_command(encoder, tmp_path / "nothing.csv", tmp_path / "out"))
    assert "did you mean sst2" in complaint(*finetune_command(encoder, "sst3", tmp_path / "out"))
    assert "no labelled sentences" in complaint(*finetune_command(encoder, "wic", tmp_path / "out"))
