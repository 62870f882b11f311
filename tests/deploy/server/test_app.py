"""The addresses: answers, refusals with their status, and a log without texts."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server import app as app_module
from d2lbert.deploy.server.app import RefusalError, Server, make_app
from d2lbert.deploy.server.models import Models, predict

TEXT = {"text": "a warm and funny film", "model": "mood"}


def is_refusal(response: Any, status: int, message: str) -> None:
    """A status and one line of JSON."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.text.count("\n") == 1
    assert message in response.json()["error"]


def test_ping_and_page(client: TestClient) -> None:
    answer = client.get("/ping")
    assert (answer.status_code, answer.content) == (200, b"")
    page = client.get("/").text
    assert '["mood", "likeness", "names", "answers", "choice"]' in page
    assert "http" not in page.replace("http-equiv", ""), "the page asks nobody else"


def test_answers(client: TestClient, models: Models) -> None:
    right = predict([models.prepare(TEXT)])[0]
    assert client.post("/invocations", json=TEXT).json() == right
    many = client.post("/invocations", json={"instances": [TEXT, {"text": "Jim", "model": "names"}]}).json()
    assert many["predictions"][0]["label"] == right["label"]
    assert many["predictions"][1]["words"] == ["Jim"]
    lines = client.post(
        "/invocations?model=mood",
        content='{"text": "a"}\n{"text": "b"}\n',
        headers={"Content-Type": "application/jsonlines"},
    )
    assert [json.loads(line)["label"] in ("bad", "good") for line in lines.text.splitlines()] == [True, True]
    cells = client.post(
        "/invocations",
        content="a\nb\n",
        headers={"Content-Type": "text/csv", "X-Amzn-SageMaker-Custom-Attributes": "trace=1, model=mood"},
    )
    assert cells.headers["content-type"].startswith("text/csv")
    assert len(cells.text.splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "no JSON"),
        ({"content": b"\xff", "headers": {"Content-Type": "application/json"}}, 400, "not UTF-8"),
        ({"content": b"a", "headers": {"Content-Type": "image/png"}}, 415, "is not known: send application/json"),
        ({"json": TEXT, "headers": {"Accept": "image/png"}}, 406, "no answer in"),
        ({"json": {"text": "", "model": "mood"}}, 422, "a text is empty"),
        ({"json": {"instances": [TEXT, {"text": "a"}]}}, 422, "text 2: several models are served"),
        ({"json": {"instances": [TEXT] * 51}}, 413, "51 texts at once: send 50 or less"),
        ({"json": {"text": "word " * 5000, "model": "mood"}}, 413, "send 20,000 or less"),
        ({"json": {"instances": [{"text": "one two " * 45, "model": "mood"}] * 49}}, 413, "the queue takes 4,096"),
    ],
)
def test_refusals(client: TestClient, options: dict[str, Any], status: int, message: str) -> None:
    is_refusal(client.post("/invocations", **options), status, message)
    assert client.post("/invocations", json=TEXT).status_code == 200, "the server goes on"


def test_a_body_without_a_length_is_stopped_at_the_limit(client: TestClient) -> None:
    sent = []

    def chunks() -> Iterator[bytes]:
        for number in range(100):
            sent.append(number)
            yield b" " * 1000

    is_refusal(client.post("/invocations", content=chunks()), 413, "a body above 20,000 bytes")


def test_addresses_that_are_not_there(client: TestClient) -> None:
    is_refusal(client.get("/nothing"), 404, "Not Found")
    is_refusal(client.get("/invocations"), 405, "Method Not Allowed")


class _Stuck:
    """A model that computes only when it may."""

    def __init__(self) -> None:
        self.open = threading.Event()

    def __call__(self, prepared: Sequence[Any]) -> list[dict[str, Any]]:
        assert self.open.wait(60)
        return predict(prepared)


def test_a_full_queue_says_when_to_come_back(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = _Stuck()
    server = Server(models, ServerSettings(queue_tokens=8, batch_tokens=8, deadline_seconds=30.0))
    monkeypatch.setattr(server.batcher, "_compute", stuck)
    answers: list[int] = []
    with TestClient(make_app(server)) as client:
        threads = []
        for tokens in (6, 8):  # the first is computed, the second waits
            threads.append(
                threading.Thread(target=lambda: answers.append(client.post("/invocations", json=TEXT).status_code))
            )
            threads[-1].start()
            _until(lambda waits=tokens == 8: (server.batcher.waiting_tokens > 0) == waits and server.batcher.alive)
        _until(lambda: server.batcher.waiting_tokens == 7)
        refused = client.post("/invocations", json=TEXT)
        is_refusal(refused, 429, "too many texts are waiting")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        stuck.open.set()
        for thread in threads:
            thread.join(30)
    assert answers == [200, 200]


def _until(true: Any) -> None:
    for _ in range(600):
        if true():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it never became true")


def test_what_takes_too_long_is_told_and_not_computed(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, computed = _Stuck(), []
    server = Server(models, ServerSettings(deadline_seconds=0.3))
    monkeypatch.setattr(server.batcher, "_compute", lambda prepared: [computed.append(1), *stuck(prepared)][1:])
    with TestClient(make_app(server)) as client:
        for _ in range(3):
            is_refusal(client.post("/invocations", json=TEXT), 504, "no answer within 0.3 s")
        stuck.open.set()
        _until(lambda: client.post("/invocations", json=TEXT).status_code == 200)
    assert len(computed) == 2, "the first, which had begun, and the last; the two that waited were dropped"


def test_too_much_in_memory_is_refused(models: Models) -> None:
    server = Server(models, ServerSettings(waiting_bytes=10))
    with TestClient(make_app(server)) as client:
        refused = client.post("/invocations", json=TEXT)
        is_refusal(refused, 503, "too many requests are in memory")
        assert refused.headers["retry-after"] == "1"
    assert server._bytes == 0


def test_a_stopped_server_is_not_ready(models: Models) -> None:
    server = Server(models, ServerSettings())
    with TestClient(make_app(server)) as client:
        server.batcher.close(10)
        is_refusal(client.get("/ping"), 503, "not ready")
        is_refusal(client.post("/invocations", json=TEXT), 503, "stopping")
    assert server.draining


def test_an_error_of_the_program_is_no_text_in_a_log(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(prepared: Sequence[Any]) -> list[Any]:
        raise RuntimeError("the secret word")

    with TestClient(make_app(server), raise_server_exceptions=False) as client, caplog.at_level(logging.INFO):
        assert client.post("/invocations", json={"text": "the secret word", "model": "mood"}).status_code == 200
        monkeypatch.setattr(server.batcher, "_compute", fail)
        failed = client.post("/invocations", json={"text": "the secret word", "model": "mood"})
    is_refusal(failed, 500, "its log says where")
    assert "RuntimeError in" in caplog.text
    assert "test_app.py" in caplog.text
    assert '"status": 500' in caplog.text
    assert "secret" not in caplog.text.replace("the_secret", "")


def test_metrics_count_what_happened(client: TestClient) -> None:
    client.post("/invocations", json=TEXT)
    client.post("/invocations", json={})
    text = client.get("/metrics").text
    assert 'd2lbert_requests_total{path="/invocations",status="200"} 1.0' in text
    assert 'd2lbert_requests_total{path="/invocations",status="422"} 1.0' in text
    assert "d2lbert_waiting_bytes 0.0" in text


def test_a_refusal_is_one_line() -> None:
    response = RefusalError(400, "two\nlines", {"A": "b"}).response()
    assert response.body == b'{"error": "two lines"}\n'
    assert response.headers["a"] == "b"


def test_the_log_names_the_innermost_place() -> None:
    try:
        raise ValueError
    except ValueError as error:
        assert app_module._place_of(error.__traceback__).startswith(__file__)
    assert app_module._place_of(None) == "unknown"
