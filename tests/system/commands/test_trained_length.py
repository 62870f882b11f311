"""How many tokens a model was trained on is kept in its folder, and whoever uses it reads as many."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from cli_support import complaint, finetune_command, run

from d2lbert.torch.adapters import add_adapters, save_adapters
from d2lbert.torch.heads import BertForSequenceClassification


@pytest.fixture
def long_texts(tmp_path: Path) -> Path:
    """Four texts of some 600 tokens, of two labels."""
    path = tmp_path / "long.csv"
    path.write_text("text,label\n" + "".join(f"{'so ' * 600}{name},{name}\n" for name in ("good", "bad") * 2))
    return path


def _tuned(encoder: Path, train: Path, out: Path, *more: str) -> Path:
    result = run(*finetune_command(encoder, train, out, "--epochs", "1", *more))
    assert result.returncode == 0, result.stderr
    return out


def _read(folder: Path, file: Path, *more: str) -> str:
    """What evaluate and predict say of texts that are cut; both say the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # a process says a thing once, and here many commands share one
        words = ("classification", "--model", folder, "--data", file, *more)
        said = [run(name, *words) for name in ("evaluate", "predict")]
    assert [result.returncode for result in said] == [0, 0], said
    one, two = ([line for line in result.stderr.splitlines() if "texts cut" in line] for result in said)
    assert one == two
    return one[0] if one else ""


@pytest.mark.parametrize("edition", ["torch", "mxnet"])
def test_a_model_reads_as_much_as_in_its_training(
    encoder: Path, long_texts: Path, tmp_path: Path, edition: str
) -> None:
    chosen = ("--edition", edition)
    folder = _tuned(encoder, long_texts, tmp_path / "out", "--max-length", "256", *chosen)
    assert json.loads((folder / "config.json").read_text())["trained_length"] == 256
    assert "at most 256 tokens" in (folder / "README.md").read_text()
    assert "4 of 4 texts cut after 256 tokens" in _read(folder, long_texts, *chosen)
    assert "4 of 4 texts cut after 20 tokens" in _read(folder, long_texts, "--max-length", "20", *chosen)
    assert "4 of 4 texts cut after 400 tokens" in _read(folder, long_texts, "--max-length", "400", *chosen)


def test_an_exported_model_and_adapters_read_as_much(encoder: Path, long_texts: Path, tmp_path: Path) -> None:
    folder = _tuned(encoder, long_texts, tmp_path / "out", "--max-length", "200")
    assert run("export", "--model", folder, "--out", tmp_path / "onnx").returncode == 0
    assert "cut after 200 tokens" in _read(tmp_path / "onnx", long_texts)
    model = BertForSequenceClassification.from_pretrained(folder)
    add_adapters(model)
    save_adapters(model, tmp_path / "adapters", str(encoder))
    assert "cut after 200 tokens" in _read(tmp_path / "adapters", long_texts)


def test_a_folder_that_does_not_say_it_is_read_as_before(classifier: Path, long_texts: Path) -> None:
    assert "trained_length" not in json.loads((classifier / "config.json").read_text())
    answered = run("predict", "classification", "--model", classifier, "--data", long_texts)
    assert "4 of 4 texts cut after 128 tokens" in answered.stderr


def test_no_more_is_read_than_there_are_positions(encoder: Path, long_texts: Path, tmp_path: Path) -> None:
    folder = _tuned(encoder, long_texts, tmp_path / "out")
    config = folder / "config.json"
    content = config.read_text()
    assert json.loads(content)["trained_length"] == 128
    config.write_text(content.replace('"trained_length": 128', '"trained_length": 100000'))
    assert "4 of 4 texts cut after 512 tokens" in _read(folder, long_texts)
    config.write_text(content.replace('"trained_length": 128', '"trained_length": "128"'))
    line = complaint("predict", "classification", "--model", folder, "--data", long_texts)
    assert "trained_length is '128'; give a number of tokens" in line
