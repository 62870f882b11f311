"""The models of a server, and a client of a server in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models


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
