"""The application: SageMaker's addresses, those of the Open Inference Protocol, metrics, and a page to try it.

Every refusal is one line of JSON, ``{"error": ...}``. Nothing of a request's text is ever logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import StarletteHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from d2lbert import __version__
from d2lbert.deploy.server.core import RefusalError, Server
from d2lbert.deploy.server.multi_model import add_multi_model
from d2lbert.deploy.server.page import PAGE
from d2lbert.deploy.server.protocol import add_protocol
from d2lbert.deploy.server.sagemaker import add_sagemaker
from d2lbert.deploy.server.schema import text_of_type, with_models
from d2lbert.deploy.server.threads import in_passing

log = logging.getLogger("d2lbert.server")


def make_app(server: Server, multi_model: bool = False) -> FastAPI:
    """Return the application with all addresses.

    Args:
        multi_model: those too at which SageMaker loads models and lets them go. Whoever reaches them can have any
            folder of this machine read, so they are for its containers alone.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.get_running_loop().run_in_executor(None, in_passing, server.warm_up)
        yield
        await asyncio.get_running_loop().run_in_executor(None, server.batcher.close, server.drain())

    app = FastAPI(title="d2lbert", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.add_middleware(_Watcher, server=server)
    app.exception_handler(RefusalError)(_refuse)
    app.exception_handler(StarletteHTTPException)(_refuse_by_router)
    add_sagemaker(app, server)
    add_protocol(app, server)
    if multi_model:
        add_multi_model(app, server)

    @app.get("/metrics", response_class=Response, responses=text_of_type("text/plain"))
    async def metrics() -> Response:
        """Counters, as Prometheus reads them."""
        server.gauges()
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", response_class=Response, responses=text_of_type("text/html"))
    async def page() -> Response:
        """A page to try the models."""
        return Response(PAGE.replace("MODELS", json.dumps(server.models.names)), media_type="text/html")

    def document() -> dict[str, Any]:
        """The OpenAPI document. Models come and go, so their names are not kept with what FastAPI keeps."""
        return with_models(FastAPI.openapi(app), server.models.names)

    app.openapi = document  # type: ignore[method-assign]
    return app


class _Watcher:
    """Counts and logs every request, and makes a line of an error of the program.

    It is plain ASGI and hands on what it gets. Starlette's own decorator for this starts tasks of its own: a third of
    the processor time of a request, its model aside.
    """

    def __init__(self, app: ASGIApp, server: Server) -> None:
        self._app, self._server = app, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = status or message.get("status", 0)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            # The message of an error may hold the text of a request; where it happened does not.
            log.error("%s in %s", type(error).__name__, _place_of(error.__traceback__))
            if not status:
                answer = RefusalError(500, "an error of the server; its log says where").response()
                await answer(scope, receive, watched)
        self._tell(scope, status, time.perf_counter() - began)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")
        self._server.metrics.request(path, status, seconds)
        told = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 1)}
        told |= {name: scope.get("state", {}).get(name, 0) for name in ("texts", "tokens")}
        log.info("%s", json.dumps(told))


def _place_of(trace: Any) -> str:
    """Return the file and the line in which an error was raised."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else "unknown"


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return error.response()


async def _refuse_by_router(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return RefusalError(error.status_code, str(error.detail), error.headers).response()
