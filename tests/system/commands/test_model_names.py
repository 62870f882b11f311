"""What --model takes: names of the hub, addresses of folders; and folders from which nothing may be answered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch
from cli_support import complaint, finetune_command, run
from hub_support import small_zoo
from safetensors.torch import load_file, save_file

from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.zoo import locate

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """A small classifier with the vocabulary of BERT."""
    torch.manual_seed(0)
    folder = tmp_path / "classifier"
    BertForSequenceClassification(BertModel(BertConfig(**SIZES)), ["neg", "pos"]).save_pretrained(folder)
    WordPiece.from_pretrained(locate("minilm")).save_pretrained(folder)
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    rows = [("a good film", "pos"), ("a bad film", "neg"), ("fine", "pos"), ("poor", "neg")] * 4
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def test_a_name_of_the_hub_is_trained_and_a_folder_may_be_an_address(
    classifier: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with small_zoo(monkeypatch, tmp_path / "cache", ()) as hub:
        for path in classifier.iterdir():
            hub.files[f"/someone/small/resolve/{hub.newest}/{path.name}"] = path.read_bytes()
        hub.files["/someone/small/resolve/main/config.json"] = (classifier / "config.json").read_bytes()
        trained = run(*finetune_command(Path("someone/small"), table, tmp_path / "out", "--epochs", "1"))
    assert trained.returncode == 0, trained.stderr
    assert "BertForSequenceClassification: here is its encoder alone" in trained.stderr
    address = (tmp_path / "out").as_uri()
    tested = run("evaluate", "classification", "--model", address, "--data", table)
    assert tested.returncode == 0, tested.stderr
    assert json.loads(tested.stdout)["examples"] == 16
    assert (tmp_path / "out" / "predictions-train.csv.jsonl").is_file()
    assert not (tmp_path / "someone").exists()
    assert not (tmp_path / "file:").exists()


def change_config(folder: Path, **changes: object) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


def change_tensors(folder: Path, change: object) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({name: change(tensor) for name, tensor in tensors.items()}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: change_config(folder, num_hidden_layers=0), "num_hidden_layers is 0; it must be at least 1"),
        (lambda folder: change_config(folder, num_hidden_layers=1), "has no place for"),
        (lambda folder: change_config(folder, layer_norm_eps=-1), "layer_norm_eps is -1; it must be above 0"),
        (lambda folder: change_config(folder, hidden_size=10**6), "has shape"),
        (lambda folder: change_tensors(folder, lambda x: x * torch.nan), "holds NaN or infinity"),
        (lambda folder: change_tensors(folder, lambda x: x * 3e38), "NaN or infinity|outputs .* are NaN or infinite"),
        (lambda folder: change_tensors(folder, lambda x: x.to(torch.int8)), "holds numbers of type I8"),
        (lambda folder: cut(folder / "vocab.txt", 1000), "1,000 pieces, the model has 30,522 embeddings"),
    ],
)
def test_a_folder_from_which_nothing_may_be_answered(
    damage: object, message: str, classifier: Path, table: Path
) -> None:
    damage(classifier)  # type: ignore[operator]
    for command in (("predict", "--text", "a good film"), ("evaluate", "--data", table)):
        line = complaint(command[0], "classification", "--model", classifier, *command[1:])
        assert re.search(message, line), line
    assert not list(classifier.glob("predictions*"))


def cut(path: Path, lines: int) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))


def test_a_learning_rate_that_ruins_the_weights_saves_nothing(classifier: Path, table: Path, tmp_path: Path) -> None:
    command = finetune_command(
        classifier, table, tmp_path / "out", "--epochs", "1", "--batch-size", "32", "--lr", "1e38"
    )
    assert re.search(r" became NaN or infinite at step 1: lower the learning rate$", complaint(*command))
    assert not (tmp_path / "out").exists()
