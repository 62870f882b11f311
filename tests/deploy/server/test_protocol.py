"""The Open Inference Protocol: health, models, inference, and a model loaded anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from d2lbert.deploy.server.models import Models, predict


def tensor(*texts: str, name: str = "text", **changes: Any) -> dict[str, Any]:
    return {"name": name, "datatype": "BYTES", "shape": [len(texts)], "data": list(texts), **changes}


def test_health_and_models(client: TestClient) -> None:
    assert client.get("/v2").json()["name"] == "d2lbert"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/mood/ready").json() == {"name": "mood", "ready": True}
    (output,) = client.get("/v2/models/mood").json()["outputs"]
    assert [output] == [{"name": "prediction", "datatype": "BYTES", "shape": [-1]}]
    assert [row["name"] for row in client.get("/v2/repository/index").json()] == [
        "mood",
        "likeness",
        "names",
        "answers",
        "choice",
    ]


def test_a_stopped_server_is_alive_and_not_ready(client: TestClient, server: Any) -> None:
    server.batcher.close(10)
    assert client.get("/v2/health/live").status_code == 200
    for path in ("/v2/health/ready", "/v2/models/mood/ready"):
        assert client.get(path).status_code == 503


def test_inference(client: TestClient, models: Models) -> None:
    body = {"id": "seven", "inputs": [tensor("a film", "b"), tensor("c", "d", name="pair")]}
    answer = client.post("/v2/models/likeness/infer", json=body).json()
    assert (answer["model_name"], answer["id"]) == ("likeness", "seven")
    (output,) = answer["outputs"]
    assert output["shape"] == [2]
    right = predict([models.prepare({"text": "a film", "pair": "c", "model": "likeness"})])[0]
    assert json.loads(output["data"][0])["score"] == pytest.approx(right["score"], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "body", "status", "message"),
    [
        ("nothing", {"inputs": [tensor("a")]}, 404, "unknown model 'nothing'"),
        ("mood", [], 400, 'send {"inputs"'),
        ("mood", {"inputs": []}, 400, 'send {"inputs"'),
        ("mood", {"inputs": [tensor("a")], "id": 7}, 400, "id must be a text"),
        ("mood", {"inputs": ["a"]}, 400, "an input must be an object"),
        ("mood", {"inputs": [tensor("a", name="txt")]}, 400, "an input must be an object with a name, one of text"),
        ("mood", {"inputs": [tensor("a", datatype="FP32")]}, 400, "datatype BYTES"),
        ("mood", {"inputs": [tensor("a", data=[1])]}, 400, "a list of one or more texts"),
        ("mood", {"inputs": [tensor("a", shape=[2])]}, 400, "must be [1]"),
        ("mood", {"inputs": [tensor("a"), tensor("b")]}, 400, "given twice"),
        ("mood", {"inputs": [tensor("a"), tensor("b", "c", name="pair")]}, 400, "differ in length"),
        ("mood", {"inputs": [tensor("a", "")]}, 422, "text 2: a text is empty"),
    ],
)
def test_refusals(client: TestClient, name: str, body: Any, status: int, message: str) -> None:
    refused = client.post(f"/v2/models/{name}/infer", json=body)
    assert refused.status_code == status
    assert message in refused.json()["error"]


def test_no_json(client: TestClient) -> None:
    assert client.post("/v2/models/mood/infer", content=b"{").status_code == 400


def test_a_model_is_loaded_anew(client: TestClient, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    before = models.find("mood").head
    assert client.post("/v2/repository/models/mood/load").json() == {"name": "mood", "state": "READY"}
    assert models.find("mood").head is not before
    assert client.post("/v2/repository/models/nothing/load").status_code == 404
    monkeypatch.setattr("d2lbert.deploy.server.models.locate", lambda source: Path("nowhere"))
    refused = client.post("/v2/repository/models/mood/load")
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("the old model stays: ")
    assert client.post("/invocations", json={"text": "a", "model": "mood"}).status_code == 200
