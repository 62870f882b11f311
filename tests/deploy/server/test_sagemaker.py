"""SageMaker's addresses: answers, and refusals with their status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_support import is_refusal

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models, predict

TEXT = {"text": "a warm and funny film", "model": "mood"}


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


def test_a_stopped_server_is_not_ready(models: Models) -> None:
    server = Server(models, ServerSettings())
    with TestClient(make_app(server)) as client:
        server.batcher.close(10)
        is_refusal(client.get("/ping"), 503, "not ready")
        is_refusal(client.post("/invocations", json=TEXT), 503, "stopping")
    assert server.draining


def test_what_a_batch_transform_job_may_send(folders: dict[str, str]) -> None:
    server = Server(Models({"mood": folders["mood"]}), ServerSettings())
    with TestClient(make_app(server)) as client:
        limits = client.get("/execution-parameters").json()
        assert limits == {"MaxConcurrentTransforms": 1, "BatchStrategy": "MULTI_RECORD", "MaxPayloadInMB": 6}
        lines = "".join(json.dumps({"text": f"film number {number}"}) + "\n" for number in range(300))
        answer = client.post("/invocations", content=lines, headers={"Content-Type": "application/jsonlines"})
    assert len(answer.text.splitlines()) == 300, "a line for each record"
