"""The OpenAPI document: the models that are served now, the types that are read, and examples that are answered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server import formats
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models

PREDICTIONS = ["/invocations", "/v2/models/{name}/infer", "/models/{name}/invoke"]


def names(document: dict[str, Any]) -> dict[str, Any]:
    return document["components"]["schemas"]["ModelName"]


def test_names_are_those_of_the_models_that_are_served_now(models: Models) -> None:
    app = make_app(Server(models, ServerSettings()))
    assert names(app.openapi())["enum"] == ["mood", "likeness", "names", "answers", "choice"]
    source = models.find("likeness").source
    for name in ("mood", "names", "answers", "choice"):
        models.remove(name)
    models.add("new", source)
    assert names(app.openapi())["enum"] == ["likeness", "new"]


def test_where_no_model_is_served_a_name_is_any_text() -> None:
    app = make_app(Server(Models({}), ServerSettings()), multi_model=True)
    assert names(app.openapi()) == {"type": "string"}


def test_every_model_is_called_by_one_of_the_names(server: Server) -> None:
    document = make_app(server, multi_model=True).openapi()
    where = [
        (path, parameter["schema"])
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", [])
        if parameter["name"] != "next_page_token"
    ]
    assert {path for path, _ in where} == {path for path in document["paths"] if "{name}" in path} | {"/invocations"}
    assert all(schema == {"$ref": "#/components/schemas/ModelName"} for _, schema in where)


@pytest.mark.parametrize("path", PREDICTIONS)
def test_examples_of_every_type_are_answered_as_described(server: Server, path: str) -> None:
    app = make_app(server, multi_model=True)
    described = app.openapi()["paths"][path]["post"]
    bodies = described["requestBody"]["content"]
    types = {formats.JSON} if path.startswith("/v2") else {formats.JSON, formats.LINES, formats.CSV}
    assert set(bodies) == set(described["responses"]["200"]["content"]) == types
    query = {} if "{name}" in path else {"model": "mood"}
    with TestClient(app) as client:
        for media_type, body in bodies.items():
            content = body["example"] if isinstance(body["example"], str) else json.dumps(body["example"])
            headers = {"Content-Type": media_type}
            answer = client.post(path.format(name="mood"), params=query, content=content, headers=headers)
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].partition(";")[0] == media_type


def test_other_names_of_a_type_are_told(server: Server) -> None:
    body = make_app(server).openapi()["paths"]["/invocations"]["post"]["requestBody"]["content"][formats.LINES]
    told = {word.strip(",;") for word in body["schema"]["description"].split() if "/" in word}
    assert told == set(formats._ALIASES)
