"""The application: its page, its counters, and a log without texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_support import is_refusal

from d2lbert.deploy.server import app as app_module
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server

TEXT = {"text": "a warm and funny film", "model": "mood"}


def test_ping_and_page(client: TestClient) -> None:
    answer = client.get("/ping")
    assert (answer.status_code, answer.content) == (200, b"")
    page = client.get("/").text
    assert '["mood", "likeness", "names", "answers", "choice"]' in page
    assert "http" not in page.replace("http-equiv", ""), "the page asks nobody else"


def test_addresses_that_are_not_there(client: TestClient) -> None:
    is_refusal(client.get("/nothing"), 404, "Not Found")
    is_refusal(client.get("/invocations"), 405, "Method Not Allowed")


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


def test_the_log_names_the_innermost_place() -> None:
    with pytest.raises(ValueError, match="here") as raised:
        raise ValueError("here")
    assert app_module._place_of(raised.tb).startswith(__file__)
    assert app_module._place_of(None) == "unknown"
