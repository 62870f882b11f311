"""What the tests of deployment share."""

from __future__ import annotations

from pathlib import Path

import pytest
from export_support import HEADS, SIZES
from random_parameters import randomize

from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.zoo.folders import locate


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model folder: a classifier with the vocabulary of MiniLM."""
    path = tmp_path_factory.mktemp("model") / "classifier"
    model = HEADS["texts"](BertModel(BertConfig(max_position_embeddings=64, **SIZES)))
    randomize(model, seed=5, standard_deviation=0.3)
    model.save_pretrained(path)
    WordPiece.from_pretrained(locate("minilm")).save_pretrained(path)
    return path
