"""The plain server: it answers as ours does, one text at a time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from benchmarks import plain_server
from d2lbert.deploy.server.models import Models, predict

TEXTS = ["an unforgettable film", "dull, from start to end"]


def test_it_answers_as_our_server_does() -> None:
    models = Models({"minilm-sst2": "minilm-sst2"})
    ours = predict([models.prepare({"text": text}) for text in TEXTS])
    with TestClient(plain_server.application("minilm-sst2")) as client:
        assert client.get("/ping").status_code == 200
        for text, own in zip(TEXTS, ours, strict=True):
            answer = client.post("/invocations", json={"text": text}).json()
            assert answer["label"] == own["label"]
            assert answer["probabilities"] == pytest.approx(own["probabilities"], abs=1e-5)


def test_one_text_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = [0], [0]

    def slow(*_: Any) -> list[dict[str, int]]:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        return [{"thread": threading.get_ident()}]

    monkeypatch.setattr(plain_server, "predict", slow)
    with TestClient(plain_server.application("minilm-sst2")) as client, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.post, "/invocations", json={"text": "a film"}) for _ in range(8)]
        assert len({future.result().json()["thread"] for future in asked}) > 1  # they did come at once
    assert most == [1]
