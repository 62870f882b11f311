"""What all addresses share: bounds, deadlines, and what is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_support import is_refusal

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server import core
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import RefusalError, Server
from d2lbert.deploy.server.models import Models, Prepared, predict

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


class _Watched:
    """A model's tokenizer: counts the texts that it encodes, and waits at each call until it may go on."""

    def __init__(self, models: Models, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        tokenizer = models.find(name).tokenizer
        self._encode, self.open, self.left, self.texts = tokenizer.encode_batch, threading.Event(), 0, 0
        monkeypatch.setattr(tokenizer, "encode_batch", self)

    def __call__(self, texts: Sequence[str], *others: Any) -> Any:
        self.texts += len(texts)
        assert self.open.wait(20)
        self.left += 1
        return self._encode(texts, *others)


LONG = "word " * 200
SHORT = "word " * 30


@pytest.mark.parametrize(
    ("content", "most"),
    [
        ([TEXT] * 2000, 0),
        ([{**TEXT, "text": SHORT}] * 1000, 200),
        ({"text": "a", "choices": ["b"] * 1000, "model": "choice"}, 0),
        ({"text": LONG, "choices": ["b"] * 600, "model": "choice"}, 0),
        ({"text": SHORT, "choices": ["b"] * 600, "model": "choice"}, 200),
        ({"context": "a b. " * 10_000, "question": "Who?", "model": "answers"}, 0),
        ({"text": "Jim said so. " * 5000, "model": "names"}, 0),
    ],
)
def test_what_the_queue_never_takes_is_not_encoded(
    models: Models, monkeypatch: pytest.MonkeyPatch, content: Any, most: int
) -> None:
    """Some is too large at sight. Of the rest no more is encoded than shows that it is."""
    name = content[0]["model"] if isinstance(content, list) else content["model"]
    tokenizer = _Watched(models, name, monkeypatch)
    tokenizer.open.set()
    server = Server(models, ServerSettings(queue_tokens=4096))
    with TestClient(make_app(server)) as client:
        warmed_up = tokenizer.texts
        refused = client.post("/invocations", json=content)
    is_refusal(refused, 413, "more than 4,096 tokens, and the queue takes 4,096: send less at once")
    assert tokenizer.texts - warmed_up <= most


def test_a_large_request_does_not_stand_before_a_small_one(models: Models) -> None:
    server = Server(models, ServerSettings(queue_tokens=10**6))
    ended: list[str] = []

    async def ask(name: str, count: int) -> None:
        request: Any = SimpleNamespace(state=SimpleNamespace())
        answers = await server.answer(request, [{**TEXT, "text": LONG}] * count, None)
        assert len(answers) == count
        ended.append(name)

    async def both() -> None:
        await asyncio.gather(ask("large", 300), ask("small", 1))

    asyncio.run(both())
    assert ended == ["small", "large"]


def test_the_deadline_holds_while_texts_are_encoded(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = _Watched(models, "mood", monkeypatch)
    tokenizer.open.set()
    server = Server(models, ServerSettings(deadline_seconds=0.5))
    with TestClient(make_app(server)) as client:
        tokenizer.open.clear()
        tokenizer.texts = tokenizer.left = 0
        refused = client.post("/invocations", json=[TEXT] * 5)
        is_refusal(refused, 504, "no answer within 0.5 s")
        assert (tokenizer.texts, tokenizer.left) == (1, 0), "the first was still being encoded"
        tokenizer.open.set()
        _until(lambda: client.post("/invocations", json=TEXT).status_code == 200)
        assert tokenizer.texts <= 3, "nobody waited for the others any more"


@pytest.mark.parametrize(
    "content",
    [
        {"context": "Jim sells eels. " * 400, "question": "Who sells eels?", "model": "answers"},
        {"text": "Jim bought shares. " * 200, "model": "names"},
        {"text": "It rained. " * 5, "choices": [f"The road number {n} is wet." for n in range(150)], "model": "choice"},
    ],
)
def test_a_large_text_is_computed_in_several_batches(
    models: Models, monkeypatch: pytest.MonkeyPatch, content: dict[str, Any]
) -> None:
    """Its answer is that of one batch."""
    server = Server(models, ServerSettings(batch_tokens=512))
    sizes: list[int] = []

    def watched(items: Sequence[Any]) -> list[Any]:
        sizes.append(sum(item.tokens for item in items))
        return predict(items)

    monkeypatch.setattr(server.batcher, "_compute", watched)
    with TestClient(make_app(server)) as client:
        answer = client.post("/invocations", json=content).json()
    prepared = models.prepare(content)
    assert isinstance(prepared, Prepared)
    assert max(sizes) <= 512 < prepared.tokens == sum(sizes)
    (right,) = predict([prepared])
    close(answer, right)


def close(found: Any, right: Any) -> None:
    """Equal but for the fifth decimal of numbers."""
    if isinstance(right, dict):
        assert set(found) == set(right)
        for name in right:
            close(found[name], right[name])
    elif isinstance(right, list | tuple):
        for one, other in zip(found, right, strict=True):
            close(one, other)
    else:
        assert found == (pytest.approx(right, abs=1e-4) if isinstance(right, float) else right)
