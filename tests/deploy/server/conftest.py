"""Small models of every task, four of them adapters of one encoder, and a client of a server in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient
from random_parameters import randomize
from torch import nn

from d2lbert.config import BertConfig
from d2lbert.config.adapters import AdapterConfig
from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models
from d2lbert.text import WordPiece
from d2lbert.torch.adapters import adapted_layers, add_adapters, save_adapters
from d2lbert.torch.bert import BertModel
from d2lbert.torch.heads import (
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
)
from d2lbert.zoo.folders import locate

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def make_adapters(base: Path, folder: Path, head: type, *labels: str, seed: int = 0) -> None:
    """Write adapters with random numbers, and a random head."""
    model = head(BertModel.from_pretrained(base), *([list(labels)] if labels else []))
    add_adapters(model, AdapterConfig(rank=2, alpha=4.0))
    torch.manual_seed(seed)
    for layer in adapted_layers(model).values():
        nn.init.normal_(layer.up, std=0.3)
    save_adapters(model, folder, str(base))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name -> folder of each model; "choice" is a whole model with an encoder of its own."""
    root = tmp_path_factory.mktemp("served")
    base = root / "base"
    encoder = BertModel(BertConfig(**SIZES))
    randomize(encoder, seed=1)
    encoder.save_pretrained(base)
    tokenizer = WordPiece.from_pretrained(locate("minilm"))
    tokenizer.save_pretrained(base)
    make_adapters(base, root / "mood", BertForSequenceClassification, "bad", "good", seed=1)
    make_adapters(base, root / "likeness", BertForSequenceClassification, "score", seed=2)
    make_adapters(base, root / "names", BertForTokenClassification, "O", "B-person", "I-person", seed=3)
    make_adapters(base, root / "answers", BertForQuestionAnswering, seed=4)
    BertForMultipleChoice(encoder).save_pretrained(root / "choice")
    tokenizer.save_pretrained(root / "choice")
    return {name: str(root / name) for name in ("mood", "likeness", "names", "answers", "choice")}


@pytest.fixture
def models(folders: dict[str, str]) -> Models:
    """All five models."""
    return Models(folders)


@pytest.fixture
def server(models: Models) -> Iterator[Server]:
    """A server with small limits."""
    limits = {"body_bytes": 20_000, "queue_tokens": 4096, "batch_tokens": 256, "texts_per_request": 50}
    server = Server(models, ServerSettings(**limits, deadline_seconds=20.0))
    yield server
    server.batcher.close(10)


@pytest.fixture
def client(server: Server) -> Iterator[TestClient]:
    """A client; whatever the program does not catch is raised in the test."""
    with TestClient(make_app(server), raise_server_exceptions=False) as client:
        yield client
