"""A job that trains within seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.zoo.folders import locate


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder with random weights: the channel ``model``."""
    folder = tmp_path_factory.mktemp("channel") / "model"
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(initializer_range=0.1, **sizes)).save_pretrained(folder)
    WordPiece.from_pretrained(locate("minilm")).save_pretrained(folder)
    return folder
