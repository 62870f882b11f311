"""Of all threads that call PyTorch only the batcher's lasts: the helpers of others would slow it down."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fastapi.testclient import TestClient

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models
from d2lbert.deploy.server.threads import in_passing
from d2lbert.torch.adapters.shared import SharedEncoder


def test_a_function_has_a_thread_that_ends_with_it() -> None:
    thread = in_passing(threading.current_thread)
    assert thread is not threading.current_thread()
    assert not thread.is_alive()
    assert in_passing(max, [1, 2], key=lambda number: -number) == 1
    with pytest.raises(ZeroDivisionError):
        in_passing(lambda: 1 / 0)


def noted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, threads: set[threading.Thread]) -> None:
    """Write down the threads that call a method."""
    method = getattr(owner, name)

    def called(*given: Any, **named: Any) -> Any:
        threads.add(threading.current_thread())
        return method(*given, **named)

    monkeypatch.setattr(owner, name, called)


def test_only_the_thread_that_computes_batches_lasts(folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    loading, computing = set[threading.Thread](), set[threading.Thread]()
    noted(monkeypatch, Models, "_load", loading)
    noted(monkeypatch, SharedEncoder, "logits", computing)
    server = Server(Models({"mood": folders["mood"]}), ServerSettings())
    with TestClient(make_app(server, multi_model=True)) as client:
        assert client.post("/v2/repository/models/mood/load").status_code == 200
        assert client.post("/models", json={"model_name": "again", "url": folders["mood"]}).status_code == 200
        assert client.post("/invocations", json={"text": "a film", "model": "mood"}).status_code == 200
        assert [thread.name for thread in loading | computing if thread.is_alive()] == ["batcher"]
        assert (len(loading), len(computing)) == (3, 2)
