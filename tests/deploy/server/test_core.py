"""What all addresses share: bounds, deadlines, and what is told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_support import is_refusal

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server import core
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import RefusalError, Server
from d2lbert.deploy.server.models import Models, predict

TEXT = {"text": "a warm and funny film", "model": "mood"}


class _Stuck:
    """A model that computes only when it may, and remembers what it was given."""

    def __init__(self) -> None:
        self.open, self.texts = threading.Event(), list[str]()

    def __call__(self, prepared: Sequence[Any]) -> list[dict[str, Any]]:
        self.texts += [one.examples[0].text for one in prepared]
        assert self.open.wait(60)
        return predict(prepared)


def test_a_full_queue_says_when_to_come_back(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = _Stuck()
    server = Server(models, ServerSettings(queue_tokens=8, batch_tokens=8, deadline_seconds=60.0))
    monkeypatch.setattr(server.batcher, "_compute", stuck)
    answers: list[int] = []
    with TestClient(make_app(server)) as client:

        def ask() -> threading.Thread:
            thread = threading.Thread(target=lambda: answers.append(client.post("/invocations", json=TEXT).status_code))
            thread.start()
            return thread

        threads = [ask()]
        _until(lambda: stuck.texts)  # the first is being computed
        threads.append(ask())
        _until(lambda: server.batcher.waiting_tokens == 7)  # the second waits
        refused = client.post("/invocations", json=TEXT)
        is_refusal(refused, 429, "too many texts are waiting")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        stuck.open.set()
        for thread in threads:
            thread.join(60)
    assert answers == [200, 200]


def _until(true: Any) -> None:
    for _ in range(600):
        if true():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it never became true")


def test_what_takes_too_long_is_told_and_not_computed(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = _Stuck()
    server = Server(models, ServerSettings(deadline_seconds=1.0))
    monkeypatch.setattr(server.batcher, "_compute", stuck)
    with TestClient(make_app(server)) as client:
        for text in ("first", "second", "third"):
            refused = client.post("/invocations", json={"text": text, "model": "mood"})
            is_refusal(refused, 504, "no answer within 1 s")
        stuck.open.set()
        _until(lambda: client.post("/invocations", json={"text": "last", "model": "mood"}).status_code == 200)
    assert stuck.texts[0] == "first", "it had begun"
    assert "last" in stuck.texts
    assert not {"second", "third"} & set(stuck.texts), "nobody waited for them any more"


def test_too_much_in_memory_is_refused(models: Models) -> None:
    server = Server(models, ServerSettings(waiting_bytes=10))
    with TestClient(make_app(server)) as client:
        refused = client.post("/invocations", json=TEXT)
        is_refusal(refused, 503, "too many requests are in memory")
        assert refused.headers["retry-after"] == "1"
    assert server._bytes == 0


def test_a_refusal_is_one_line() -> None:
    response = RefusalError(400, "two\nlines", {"A": "b"}).response()
    assert response.body == b'{"error": "two lines"}\n'
    assert response.headers["a"] == "b"


def test_all_of_the_end_has_one_limit(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sent the signal kills after its own limit: what lingering and waiting took is not there for the rest."""
    server = Server(models, ServerSettings(linger_seconds=1.0, drain_seconds=25.0))
    assert not server.draining
    monkeypatch.setattr(core.time, "monotonic", lambda: 100.0)
    assert server.drain() == 26.0
    monkeypatch.setattr(core.time, "monotonic", lambda: 120.0)
    assert server.drain() == 6.0
    monkeypatch.setattr(core.time, "monotonic", lambda: 130.0)
    assert server.drain() == 0.0
    assert server.draining


def test_a_batch_that_hangs_does_not_keep_the_server(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = _Stuck()
    server = Server(models, ServerSettings(linger_seconds=0.0, drain_seconds=0.5, deadline_seconds=0.2))
    monkeypatch.setattr(server.batcher, "_compute", stuck)
    with TestClient(make_app(server)) as client:
        is_refusal(client.post("/invocations", json=TEXT), 504, "no answer within")
    assert server.batcher.alive, "it has not ended, and nobody waited for it"
    stuck.open.set()
