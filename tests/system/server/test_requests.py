"""Whatever is sent, the server answers, and never with an error of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from server_support import serving

from benchmarks.bad_requests import HUNG_UP, REFUSALS, TOO_LARGE_EVERY, ask_badly
from benchmarks.deployment.soak import memory
from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server import formats
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models

MODELS = ["minilm-sst2", "minilm-wnut17", "minilm-stsb_en"]
CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    server = Server(Models({name: name for name in MODELS}), ServerSettings())
    yield make_app(server)
    server.batcher.close(10)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@given(st.data())
@pytest.mark.slow
def test_any_text_is_answered_or_refused(client: TestClient, data: st.DataObject) -> None:
    texts = st.one_of(
        st.text(),
        st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zs", "Mn", "Lo"])),
        st.sampled_from([" ", "\0", "\u200b", "\ud800", "[MASK]", "é" * 3000, "עברית", "a" * 100_000, "." * 5000]),
    )
    content = {"model": data.draw(st.sampled_from(MODELS)), "text": data.draw(texts)}
    if data.draw(st.booleans()):
        content["pair"] = data.draw(texts)
    response = client.post("/invocations", content=json.dumps(content), headers={"Content-Type": "application/json"})
    assert response.status_code in {200, 422}
    assert "error" in response.json() or {"label", "tags", "score"} & set(response.json())


@given(st.binary(max_size=400), st.sampled_from(["application/json", "application/jsonlines", "text/csv", "x/y"]))
def test_any_bytes_are_answered_or_refused(client: TestClient, body: bytes, kind: str) -> None:
    response = client.post("/invocations?model=minilm-sst2", content=body, headers={"Content-Type": kind})
    assert response.status_code in {200, *REFUSALS}


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """JSON lines that can be read; schemathesis makes none by itself."""
    texts = draw(st.lists(st.text(min_size=1), min_size=1, max_size=3))
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


schemathesis.openapi.media_type(formats.LINES, lines())


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, APIOperation]]:
    """What the OpenAPI document of a server describes, by method and path."""
    with serving(tmp_path_factory.mktemp("described"), models=MODELS) as running:
        schema = schemathesis.openapi.from_url(f"{running.address}/openapi.json")
        yield {f"{one.method} {one.path}": one for one in (result.ok() for result in schema.get_all_operations())}


def test_the_document_describes_every_address(operations: dict[str, APIOperation]) -> None:
    sagemaker = {"get /ping", "post /invocations", "get /execution-parameters"}
    assert sagemaker | {"post /v2/models/{name}/infer", "get /metrics"} <= set(operations)
    assert len(operations) == 13


@pytest.mark.slow
@given(st.data())
def test_the_server_does_as_its_document_says(operations: dict[str, APIOperation], data: st.DataObject) -> None:
    """Requests that fit the document, and requests that do not."""
    operation = operations[data.draw(st.sampled_from(sorted(operations)))]
    mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    try:
        case = data.draw(operation.as_strategy(generation_mode=mode))
    except Unsatisfiable:  # a request without parameters cannot be wrong
        return
    response = case.call()
    assert response.status_code < 500
    case.validate_response(response, checks=CHECKS)


def completed(case: Case) -> Case:
    """Add what the document cannot say: of several models one is named, which reads two texts; a shape is a number."""
    if case.path == "/invocations":
        case.query = {"model": MODELS[0], **(case.query or {})}
    else:
        if len(case.body["inputs"]) == 2:
            case.path_parameters["name"] = "minilm-stsb_en"
        for tensor in case.body["inputs"]:
            tensor["shape"] = [len(tensor["data"])]
    return case


@pytest.mark.parametrize("name", ["post /invocations", "post /v2/models/{name}/infer"])
def test_requests_that_fit_the_document_reach_the_models(operations: dict[str, APIOperation], name: str) -> None:
    """Refusals alone would say little of what is answered. Most of the rest asks a model that reads other texts."""
    statuses = Counter[tuple[str, int]]()

    @given(operations[name].as_strategy(generation_mode=GenerationMode.POSITIVE).map(completed))
    def ask(case: Case) -> None:
        response = case.call()
        statuses[str(case.media_type), response.status_code] += 1
        assert response.status_code in {200, 400, 422}
        case.validate_response(response, checks=CHECKS)

    ask()
    types = {kind for kind, _ in statuses}
    assert types == set(operations[name].get_request_payload_content_types())
    answered = sum(statuses[kind, 200] for kind in types)
    assert answered >= 0.05 * statuses.total(), statuses


@pytest.mark.slow
def test_bad_requests_leave_no_memory_behind(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """``make soak`` sends 200,000."""
    count = int(pytestconfig.getoption("--soak"))
    with serving(tmp_path, models=["minilm-sst2"]) as running:
        ask_badly(running.address, max(500, count // 20))  # caches fill
        before = memory(running.process.pid)
        answers = ask_badly(running.address, count, seed=1)
        assert set(answers) <= {HUNG_UP, *map(str, REFUSALS)}
        assert answers[HUNG_UP] <= count // TOO_LARGE_EVERY
        assert memory(running.process.pid) - before < 19, "MiB"
        right = httpx.post(f"{running.address}/invocations", json={"text": "a good film"}, timeout=60)
        assert right.json()["label"] == "positive"
