"""What the tests of the command line share: samples alone, and small models."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import BertForSequenceClassification
from d2lbert.zoo import locate

TEXTS = [
    ("what a good film", "positive"),
    ("a bad plot", "negative"),
    ("fine and good", "positive"),
    ("poor", "negative"),
]


@pytest.fixture(autouse=True)
def samples_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data but the samples, and no network."""
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main() replaces it


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with random weights and MiniLM's vocabulary."""
    folder = tmp_path_factory.mktemp("models") / "encoder"
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(**sizes)).save_pretrained(folder)
    WordPiece.from_pretrained(locate("minilm")).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def classifier(encoder: Path) -> Path:
    folder = encoder.parent / "classifier"
    model = BertForSequenceClassification(BertModel.from_pretrained(encoder), ["negative", "positive"])
    model.save_pretrained(folder)
    WordPiece.from_pretrained(encoder).save_pretrained(folder)
    return folder


@pytest.fixture
def train_file(tmp_path: Path) -> Path:
    path = tmp_path / "train.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in TEXTS))
    return path
