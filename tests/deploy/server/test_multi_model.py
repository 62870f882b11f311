"""Models that are loaded and let go over HTTP, as SageMaker does in a container of many models."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from server_support import is_refusal

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models


@pytest.fixture
def empty() -> Iterator[tuple[TestClient, Server]]:
    """A server without any model, in a container of many."""
    server = Server(Models({}), ServerSettings(body_bytes=20_000))
    with TestClient(make_app(server, multi_model=True), raise_server_exceptions=False) as client:
        yield client, server
    server.batcher.close(10)


def load(client: TestClient, name: str, url: str) -> Any:
    return client.post("/models", json={"model_name": name, "url": url})


def test_a_model_comes_answers_and_goes(empty: tuple[TestClient, Server], folders: dict[str, str]) -> None:
    client, server = empty
    assert client.get("/ping").status_code == 200
    assert client.get("/models").json() == {"models": []}
    is_refusal(client.post("/invocations", json={"text": "a"}), 422, "no model is loaded")
    assert load(client, "m1", folders["mood"]).json() == {"modelName": "m1", "modelUrl": folders["mood"]}
    assert load(client, "m2", folders["names"]).status_code == 200
    assert client.get("/models/m1").json()["modelUrl"] == folders["mood"]
    answer = client.post("/models/m1/invoke", json={"text": "a warm and funny film"})
    assert answer.json()["label"] in ("bad", "good")
    assert client.post("/models/m2/invoke", json={"text": "Jim"}).json()["words"] == ["Jim"]
    encoders = server.models._encoders
    assert len(encoders) == 1, "adapters of one encoder share it"
    assert client.delete("/models/m1").status_code == 200
    assert len(server.models._encoders) == 1
    is_refusal(client.post("/models/m1/invoke", json={"text": "a"}), 404, "m1 is not loaded")
    assert client.delete("/models/m2").status_code == 200
    assert not server.models._encoders, "nothing of it stays in memory"


def test_refusals(empty: tuple[TestClient, Server], folders: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    client, server = empty
    load(client, "m1", folders["mood"])
    is_refusal(load(client, "m1", folders["mood"]), 409, "loaded already")
    is_refusal(load(client, "m2", "/nowhere/at/all"), 422, "nowhere")
    is_refusal(client.post("/models", content=b"{"), 400, "no JSON")
    is_refusal(client.post("/models", json={"model_name": "x"}), 400, "send {")
    is_refusal(client.post("/models", json=["x", "y"]), 400, "send {")
    for method in ("get", "delete"):
        is_refusal(getattr(client, method)("/models/other"), 404, "other is not loaded")

    def no_memory(name: str, source: str) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    monkeypatch.setattr(server.models, "add", no_memory)
    is_refusal(load(client, "m2", folders["names"]), 507, "no memory for the model m2")
    assert client.get("/models").json()["models"] == [{"modelName": "m1", "modelUrl": folders["mood"]}]


def test_of_two_loads_at_once_one_is_refused(
    empty: tuple[TestClient, Server], folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = empty[1].models
    load = models._load

    def slow(name: str, source: str) -> Any:
        time.sleep(0.2)
        return load(name, source)

    monkeypatch.setattr(models, "_load", slow)
    with ThreadPoolExecutor(2) as pool:
        errors = [one.exception() for one in [pool.submit(models.add, "m1", folders["mood"]) for _ in range(2)]]
    assert sorted(str(error) for error in errors) == ["None", "the model m1 is loaded already: remove it first"]


def test_a_long_list_comes_in_pages(empty: tuple[TestClient, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    client, server = empty
    served = {f"m{number}": None for number in range(130)}
    monkeypatch.setattr(server.models, "_models", served)
    monkeypatch.setattr(server.models, "find", lambda name: type("Found", (), {"source": f"/{name}"}))
    first = client.get("/models").json()
    second = client.get("/models", params={"next_page_token": first["nextPageToken"]}).json()
    assert [one["modelName"] for one in first["models"] + second["models"]] == list(served)
    assert "nextPageToken" not in second
    for token in ("x", "²", "9" * 5000):  # not ours: the first page
        assert client.get("/models", params={"next_page_token": token}).json() == first


def test_an_ordinary_server_loads_no_folder_that_is_asked_for(client: TestClient, folders: dict[str, str]) -> None:
    assert load(client, "m1", folders["mood"]).status_code in (404, 405)
