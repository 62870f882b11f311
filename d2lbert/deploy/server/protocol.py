"""The Open Inference Protocol, version 2 over HTTP, as KServe and Triton speak it; and loading a model anew.

A text is an element of an input tensor of type BYTES. Inputs are named as the fields of a request: ``text``, and beside
it ``pair``, or ``question`` and ``context``. The one output tensor, ``prediction``, holds an answer in JSON for each.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request, Response

from d2lbert import __version__
from d2lbert.deploy.server import formats
from d2lbert.deploy.server.core import RefusalError, Server
from d2lbert.deploy.server.schema import ERRORS, INFER, INFERRED
from d2lbert.errors import UserError

_INPUTS = ("text", "pair", "question", "context")


def add_protocol(app: FastAPI, server: Server) -> None:
    """Add the protocol's addresses to an application."""

    @app.get("/v2")
    async def metadata() -> dict[str, Any]:
        """What this server is."""
        return {"name": "d2lbert", "version": __version__, "extensions": ["model_repository"]}

    @app.get("/v2/health/live")
    async def live() -> dict[str, bool]:
        """The process answers."""
        return {"live": True}

    @app.get("/v2/health/ready", responses={503: ERRORS[503]})
    async def ready() -> dict[str, bool]:
        """Requests would be answered."""
        if not server.ready:
            raise RefusalError(503, "not ready")
        return {"ready": True}

    _add_models(app, server)


def _add_models(app: FastAPI, server: Server) -> None:
    not_found: dict[int | str, dict[str, Any]] = {404: ERRORS[404]}

    @app.get("/v2/models/{name}", responses=not_found)
    async def model(name: str) -> dict[str, Any]:
        """Inputs and outputs of a model."""
        _check_known(server, name)
        tensor = {"datatype": "BYTES", "shape": [-1]}
        inputs = [{"name": one, **tensor} for one in _INPUTS]
        return {"name": name, "platform": "d2lbert", "inputs": inputs, "outputs": [{"name": "prediction", **tensor}]}

    @app.get("/v2/models/{name}/ready", responses={**not_found, 503: ERRORS[503]})
    async def model_ready(name: str) -> dict[str, Any]:
        """Whether a model would answer."""
        _check_known(server, name)
        if not server.ready:
            raise RefusalError(503, "not ready")
        return {"name": name, "ready": True}

    _add_inference(app, server)


def _add_inference(app: FastAPI, server: Server) -> None:
    @app.post("/v2/models/{name}/infer", response_class=Response, responses=INFERRED, openapi_extra=INFER)
    async def infer(name: str, request: Request) -> Response:
        """Answer a batch of texts."""
        _check_known(server, name)
        async with server.body(request) as raw:
            try:
                value = formats.load(raw)
                contents = _contents_of(value)
            except formats.BodyError as error:
                raise RefusalError(400, str(error)) from None
            answers = await server.answer(request, contents, name)
        data = [json.dumps(answer) for answer in answers]
        output = {"name": "prediction", "datatype": "BYTES", "shape": [len(data)], "data": data}
        told = {"id": value["id"]} if "id" in value else {}
        return Response(json.dumps({"model_name": name, **told, "outputs": [output]}), media_type=formats.JSON)

    @app.get("/v2/repository/index")
    async def index() -> list[dict[str, str]]:
        """All models."""
        return [{"name": name, "state": "READY"} for name in server.models.names]

    @app.post("/v2/repository/models/{name}/load", responses={404: ERRORS[404], 422: ERRORS[422]})
    async def load(name: str) -> dict[str, str]:
        """Read a model from its folder anew. Requests go on; what has come before is answered by the old one."""
        _check_known(server, name)
        try:
            await asyncio.get_running_loop().run_in_executor(None, server.models.reload, name)
        except UserError as error:
            raise RefusalError(422, f"the old model stays: {error}") from None
        return {"name": name, "state": "READY"}


def _check_known(server: Server, name: str) -> None:
    try:
        server.models.find(name)
    except UserError as error:
        raise RefusalError(404, str(error)) from None


def _contents_of(value: Any) -> list[Mapping[str, Any]]:
    """Return the fields of each text from the tensors of a request.

    Raises:
        BodyError: the tensors are not of the protocol, or of different lengths.
    """
    tensors = value.get("inputs") if isinstance(value, dict) else None
    if not isinstance(tensors, list) or not tensors:
        raise formats.BodyError(
            'send {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["..."]}]}'
        )
    if not isinstance(value.get("id", ""), str):
        raise formats.BodyError("id must be a text")
    columns: dict[str, list[str]] = {}
    for tensor in tensors:
        name, data = _tensor(tensor)
        if name in columns:
            raise formats.BodyError(f"the input {name} is given twice")
        columns[name] = data
    if len({len(data) for data in columns.values()}) != 1:
        raise formats.BodyError("the inputs differ in length")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _tensor(tensor: Any) -> tuple[str, list[str]]:
    """Return the name and the texts of a tensor.

    Raises:
        BodyError: it is not of the protocol.
    """
    if not isinstance(tensor, dict) or tensor.get("name") not in _INPUTS:
        raise formats.BodyError(f"an input must be an object with a name, one of {', '.join(_INPUTS)}")
    name, data = str(tensor["name"]), tensor.get("data")
    if tensor.get("datatype") != "BYTES":
        raise formats.BodyError(f"the input {name} must be of datatype BYTES")
    if not isinstance(data, list) or not data or not all(isinstance(one, str) for one in data):
        raise formats.BodyError(f"the data of the input {name} must be a list of one or more texts")
    if tensor.get("shape") not in ([len(data)], [len(data), 1]):
        raise formats.BodyError(f"the shape of the input {name} must be [{len(data)}], the number of its texts")
    return name, data
