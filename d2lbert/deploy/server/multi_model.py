"""The addresses of a SageMaker container of many models: the platform loads them, and lets them go, one by one.

Source: Amazon SageMaker Developer Guide, "Custom Containers Contract for Multi-Model Endpoints".
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from fastapi import FastAPI, Request, Response

from d2lbert.deploy.server import formats
from d2lbert.deploy.server.core import RefusalError, Server
from d2lbert.deploy.server.sagemaker import invoke
from d2lbert.deploy.server.schema import ANSWERS, BODY, ERRORS
from d2lbert.errors import UserError, is_out_of_memory, shortened

_PAGE = 100  # models in one answer


def add_multi_model(app: FastAPI, server: Server) -> None:
    """Add ``/models`` and what is below it to an application."""
    responses: dict[int | str, dict[str, Any]] = {status: ERRORS[status] for status in (400, 409, 413, 422, 507)}

    @app.post("/models", responses=responses)
    async def load(request: Request) -> dict[str, str]:
        """Load a model: its name as ``model_name``, its folder as ``url``."""
        async with server.body(request) as raw:
            name, url = _asked(raw)
        try:
            await asyncio.get_running_loop().run_in_executor(None, server.models.add, name, url)
        except UserError as error:
            raise RefusalError(409 if name in server.models.names else 422, str(error)) from None
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            raise RefusalError(507, f"no memory for the model {name}: let another go first") from None
        return _told(server, name)

    @app.get("/models")
    async def models(next_page_token: str = "") -> dict[str, Any]:
        """The models that are loaded, a page of them."""
        first = int(next_page_token) if re.fullmatch(r"[0-9]{1,9}", next_page_token) else 0
        page = server.models.names[first : first + _PAGE]
        rest = {"nextPageToken": str(first + _PAGE)} if first + _PAGE < len(server.models.names) else {}
        return {"models": [_told(server, name) for name in page], **rest}

    _add_one(app, server)


def _add_one(app: FastAPI, server: Server) -> None:
    not_found: dict[int | str, dict[str, Any]] = {404: ERRORS[404]}

    @app.get("/models/{name}", responses=not_found)
    async def model(name: str) -> dict[str, str]:
        """Where a model was loaded from."""
        return _told(server, name)

    @app.delete("/models/{name}", responses=not_found)
    async def let_go(name: str) -> dict[str, str]:
        """Let a model go."""
        told = _told(server, name)
        try:
            await asyncio.get_running_loop().run_in_executor(None, server.models.remove, name)
        except UserError as error:
            raise RefusalError(404, str(error)) from None
        return told

    @app.post("/models/{name}/invoke", response_class=Response, responses=ANSWERS, openapi_extra=BODY)
    async def invoke_model(name: str, request: Request) -> Response:
        """Answer one text or many, as ``/invocations``."""
        _told(server, name)
        return await invoke(server, request, name)


def _asked(raw: bytes) -> tuple[str, str]:
    """Return the name and the folder of a model that shall be loaded."""
    try:
        value = formats.load(raw)
    except formats.BodyError as error:
        raise RefusalError(400, str(error)) from None
    name, url = (value.get(field) for field in ("model_name", "url")) if isinstance(value, dict) else (None, None)
    if not (isinstance(name, str) and name and isinstance(url, str) and url):
        raise RefusalError(400, 'send {"model_name": "...", "url": "..."}')
    return name, url


def _told(server: Server, name: str) -> dict[str, str]:
    """Return a model as SageMaker lists it.

    Raises:
        RefusalError: there is no such model.
    """
    if name not in server.models.names:
        raise RefusalError(404, f"the model {shortened(name)} is not loaded")
    return {"modelName": name, "modelUrl": server.models.find(name).source}
