"""What the tests of deployment share."""

from __future__ import annotations

from pathlib import Path

import pytest
from export_support import HEADS, SIZES, make_adapters
from random_parameters import randomize

from d2lbert.config import BertConfig
from d2lbert.text import WordPiece
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from d2lbert.zoo.folders import locate

ENCODER_SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole model folder: a classifier with the vocabulary of MiniLM."""
    path = tmp_path_factory.mktemp("model") / "classifier"
    model = HEADS["texts"](BertModel(BertConfig(max_position_embeddings=64, **SIZES)))
    randomize(model, seed=5, standard_deviation=0.3)
    model.save_pretrained(path)
    WordPiece.from_pretrained(locate("minilm")).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name -> folder of each model: four sets of adapters of one encoder; "choice" is a whole model."""
    root = tmp_path_factory.mktemp("served")
    base = root / "base"
    encoder = BertModel(BertConfig(**ENCODER_SIZES))
    randomize(encoder, seed=1)
    encoder.save_pretrained(base)
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    tokenizer.save_pretrained(base)
    make_adapters(base, root / "mood", BertForSequenceClassification, "bad", "good", seed=1)
    make_adapters(base, root / "likeness", BertForSequenceClassification, "score", seed=2)
    make_adapters(base, root / "names", BertForTokenClassification, "O", "B-person", "I-person", seed=3, rank=3)
    make_adapters(base, root / "answers", BertForQuestionAnswering, seed=4)
    BertForMultipleChoice(encoder).save_pretrained(root / "choice")
    tokenizer.save_pretrained(root / "choice")
    return {name: str(root / name) for name in ("mood", "likeness", "names", "answers", "choice")}
