"""The addresses that SageMaker calls."""

from __future__ import annotations

import math
from typing import Any

from fastapi import FastAPI, Request, Response

from d2lbert.deploy.server import formats
from d2lbert.deploy.server.core import RefusalError, Server
from d2lbert.deploy.server.schema import ANSWERS, BODY, ERRORS

# SageMaker hands on this header, and no other of a client's own: model=NAME in it names the model.
ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"


def add_sagemaker(app: FastAPI, server: Server) -> None:
    """Add ``/ping``, ``/invocations`` and ``/execution-parameters`` to an application."""

    @app.get("/ping", response_class=Response, responses={503: ERRORS[503]})
    async def ping() -> Response:
        """200 as long as requests would be answered."""
        if not server.ready:
            raise RefusalError(503, "not ready")
        return Response()

    @app.post("/invocations", response_class=Response, responses=ANSWERS, openapi_extra=BODY)
    async def invocations(request: Request, model: str | None = None) -> Response:
        """Answer one text or many: JSON, JSON lines or CSV in, one of them out."""
        return await invoke(server, request, model or _named_in_attributes(request))

    @app.get("/execution-parameters")
    async def execution_parameters() -> dict[str, Any]:
        """What a batch transform job may send: many records a request, one request at a time, of this size."""
        megabytes = math.floor(server.settings.body_bytes / 2**20)
        return {"MaxConcurrentTransforms": 1, "BatchStrategy": "MULTI_RECORD", "MaxPayloadInMB": megabytes}


async def invoke(server: Server, request: Request, model: str | None) -> Response:
    """Return the answer to the texts of a request: JSON, JSON lines or CSV in, one of them out.

    Args:
        model: for the texts that name none; None is the only one.

    Raises:
        RefusalError: the body cannot be read, or not be answered.
    """
    asked, wanted = _formats_of(request)
    async with server.body(request) as raw:
        try:
            body = formats.parse(raw, asked)
        except formats.BodyError as error:
            raise RefusalError(400, str(error)) from None
        answers = await server.answer(request, body.contents, model)
        return Response(formats.write(answers, body, wanted), media_type=wanted)


def _formats_of(request: Request) -> tuple[str, str]:
    """Return the format of a request's body and of its answer."""
    try:
        asked = formats.format_of(request.headers.get("content-type"))
    except formats.FormatError as error:
        raise RefusalError(415, str(error)) from None
    try:
        return asked, formats.accepted_format(request.headers.get("accept"), asked)
    except formats.FormatError as error:
        raise RefusalError(406, str(error)) from None


def _named_in_attributes(request: Request) -> str | None:
    for part in request.headers.get(ATTRIBUTES, "").split(","):
        key, _, value = part.partition("=")
        if key.strip() == "model" and value:
            return value.strip()
    return None
