"""The server's addresses: SageMaker's, those of the Open Inference Protocol, metrics, and a page to try it.

Every refusal is one line of JSON, ``{"error": ...}``. Nothing of a request's text is ever logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import StarletteHTTPException

from d2lbert import __version__
from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server import formats
from d2lbert.deploy.server.batching import (
    Batcher,
    ClosedError,
    ExpiredError,
    QueueFullError,
    TooLargeError,
    Work,
)
from d2lbert.deploy.server.metrics import Metrics
from d2lbert.deploy.server.models import Models, predict
from d2lbert.deploy.server.page import PAGE
from d2lbert.deploy.server.schema import BODY, ERRORS
from d2lbert.errors import UserError

log = logging.getLogger("d2lbert.server")

# SageMaker hands on this header, and no other of a client's own: model=NAME in it names the model.
ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"


class RefusalError(Exception):
    """An answer that is no success.

    Args:
        status: of HTTP.
        message: for the client, in one line.
        headers: more of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def response(self) -> Response:
        """Return the answer."""
        body = json.dumps({"error": " ".join(self.message.split())}) + "\n"
        return Response(body, self.status, self.headers, "application/json")


class Server:
    """What all requests share.

    Args:
        models: that are served.
        settings: limits.
    """

    def __init__(self, models: Models, settings: ServerSettings) -> None:
        self.models, self.settings, self.metrics = models, settings, Metrics()
        self.batcher = Batcher(predict, settings.batch_tokens, settings.queue_tokens, self.metrics.batch)
        # One thread: texts are encoded while the model computes, and one huge request cannot take all processors.
        self._encoding = ThreadPoolExecutor(1, thread_name_prefix="encoding")
        self._bytes = 0
        self.draining = False

    def warm_up(self) -> None:
        """Compute one text with every model, so that the first request finds everything loaded.

        Raises:
            UserError: a model gives numbers that are not finite.
        """
        predict([self.models.example(name) for name in self.models.names])

    @property
    def ready(self) -> bool:
        """Whether requests would be answered."""
        return self.batcher.alive and not self.draining

    async def answer(self, request: Request, contents: Sequence[Mapping[str, Any]], model: str | None) -> list[Any]:
        """Return the answers to the texts of a request, in their order.

        Raises:
            RefusalError: a text cannot be answered, there is no room, or it takes too long.
        """
        if len(contents) > self.settings.texts_per_request:
            raise RefusalError(
                413, f"{len(contents):,} texts at once: send {self.settings.texts_per_request:,} or less"
            )
        deadline = time.monotonic() + self.settings.deadline_seconds
        works: list[Work] = []
        try:
            works += await asyncio.get_running_loop().run_in_executor(
                self._encoding, self._encode, contents, model, deadline
            )
            self.batcher.submit(works)
            request.state.texts = len(works)
            request.state.tokens = sum(work.tokens for work in works)
            async with asyncio.timeout_at(asyncio.get_running_loop().time() + deadline - time.monotonic()):
                return await asyncio.gather(*(asyncio.wrap_future(work.answer) for work in works))
        except UserError as error:
            raise RefusalError(422, str(error)) from None
        except TooLargeError as error:
            raise RefusalError(413, str(error)) from None
        except QueueFullError as error:
            raise RefusalError(429, str(error), {"Retry-After": str(error.seconds)}) from None
        except ClosedError as error:
            raise RefusalError(503, str(error), {"Retry-After": "1"}) from None
        except (TimeoutError, ExpiredError):
            raise RefusalError(504, f"no answer within {self.settings.deadline_seconds:g} s: send less") from None
        finally:
            for work in works:
                work.answer.cancel()  # what nobody waits for any more is not computed

    def _encode(self, contents: Sequence[Mapping[str, Any]], model: str | None, deadline: float) -> list[Work]:
        works = []
        for number, content in enumerate(contents, start=1):
            if time.monotonic() > deadline:
                raise ExpiredError("the deadline passed while the texts were encoded")
            try:
                prepared = self.models.prepare(content, model)
            except UserError as error:
                where = f"text {number}: " if len(contents) > 1 else ""
                raise UserError(f"{where}{error}") from None
            works.append(Work(prepared, prepared.tokens, deadline))
        return works

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Read the body of a request; its bytes count as waiting until the request is answered.

        Raises:
            RefusalError: it is too large or too slow, or there are too many others.
        """
        limit, taken = self.settings.body_bytes, 0
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and (len(announced) > 18 or int(announced) > limit):
            raise RefusalError(
                413, f"a body of {announced[:18]} bytes: send {limit:,} or less", {"Connection": "close"}
            )
        chunks = []
        try:
            async with asyncio.timeout(self.settings.reading_seconds):
                async for chunk in request.stream():
                    taken += len(chunk)
                    self._bytes += len(chunk)
                    if taken > limit:
                        raise RefusalError(413, f"a body above {limit:,} bytes: send less", {"Connection": "close"})
                    if self._bytes > self.settings.waiting_bytes:
                        raise RefusalError(503, "too many requests are in memory: try again", {"Retry-After": "1"})
                    chunks.append(chunk)
            yield b"".join(chunks)
        except TimeoutError:
            raise RefusalError(408, "the body did not arrive in time", {"Connection": "close"}) from None
        finally:
            self._bytes -= taken

    def gauges(self) -> None:
        """Set the gauges to what is true now."""
        self.metrics.waiting.set(self.batcher.waiting_tokens)
        self.metrics.bodies.set(self._bytes)


def make_app(server: Server) -> FastAPI:
    """Return the application with all addresses."""
    from d2lbert.deploy.server.protocol import add_protocol

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.get_running_loop().run_in_executor(None, server.warm_up)
        yield
        server.draining = True
        await asyncio.get_running_loop().run_in_executor(None, server.batcher.close, server.settings.drain_seconds)

    app = FastAPI(title="d2lbert", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.middleware("http")(_watcher(server))
    app.exception_handler(RefusalError)(_refuse)
    app.exception_handler(StarletteHTTPException)(_refuse_by_router)
    _add_sagemaker(app, server)
    add_protocol(app, server)

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counters, as Prometheus reads them."""
        server.gauges()
        return Response(server.metrics.text(), media_type="text/plain; version=0.0.4")

    @app.get("/", response_class=Response)
    async def page() -> Response:
        """A page to try the models."""
        return Response(PAGE.replace("MODELS", json.dumps(server.models.names)), media_type="text/html")

    return app


def _add_sagemaker(app: FastAPI, server: Server) -> None:
    """Add ``/ping`` and ``/invocations``, which SageMaker calls."""

    @app.get("/ping", response_class=Response, responses={503: ERRORS[503]})
    async def ping() -> Response:
        """200 as long as requests would be answered."""
        if not server.ready:
            raise RefusalError(503, "not ready")
        return Response()

    @app.post("/invocations", response_class=Response, responses=ERRORS, openapi_extra=BODY)
    async def invocations(request: Request, model: str | None = None) -> Response:
        """Answer one text or many: JSON, JSON lines or CSV in, one of them out."""
        asked, wanted = _formats_of(request)
        async with server.body(request) as raw:
            try:
                body = formats.parse(raw, asked)
            except formats.BodyError as error:
                raise RefusalError(400, str(error)) from None
            answers = await server.answer(request, body.contents, model or _named_in_attributes(request))
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


def _watcher(server: Server) -> Callable[[Request, Callable[[Request], Awaitable[Response]]], Awaitable[Response]]:
    """Return what counts and logs every request, and makes a line of an error of the program."""

    async def watch(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
        began = time.perf_counter()
        try:
            response = await call(request)
        except Exception as error:
            # The message of an error may hold the text of a request; where it happened does not.
            trace = error.__traceback__
            log.error("%s in %s", type(error).__name__, _place_of(trace))
            response = RefusalError(500, "an error of the server; its log says where").response()
        seconds = time.perf_counter() - began
        path = getattr(request.scope.get("route"), "path", "other")
        server.metrics.request(path, response.status_code, seconds)
        told = {"method": request.method, "path": path, "status": response.status_code, "ms": round(1000 * seconds, 1)}
        told |= {name: getattr(request.state, name, 0) for name in ("texts", "tokens")}
        log.info("%s", json.dumps(told))
        return response

    return watch


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
