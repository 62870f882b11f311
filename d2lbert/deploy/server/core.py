"""What all addresses of the server share: bodies in, answers out, and refusals with their status."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import Request, Response

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.batching import (
    Batcher,
    ClosedError,
    ExpiredError,
    QueueFullError,
    TooLargeError,
    Work,
)
from d2lbert.deploy.server.encoding import Encoder
from d2lbert.deploy.server.metrics import Metrics
from d2lbert.deploy.server.models import Models, Prepared, predict
from d2lbert.errors import UserError


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
        self._encoder = Encoder(models, settings.queue_tokens)
        self._bytes = 0
        self._drained_by: float | None = None

    def warm_up(self) -> None:
        """Compute one text with every model, so that the first request finds everything loaded.

        Raises:
            UserError: a model gives numbers that are not finite.
        """
        predict([self.models.example(name) for name in self.models.names])

    @property
    def draining(self) -> bool:
        """Whether the server is about to end."""
        return self._drained_by is not None

    def drain(self) -> float:
        """Be no longer ready, and return how many seconds are left until the server must have ended.

        The first call begins to count: whoever sent the signal kills after its own limit, however the time was spent.
        """
        now = time.monotonic()
        if self._drained_by is None:
            self._drained_by = now + self.settings.linger_seconds + self.settings.drain_seconds
        return max(0.0, self._drained_by - now)

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
            async with asyncio.timeout(self.settings.deadline_seconds):
                prepared = await self._encoder.encode(contents, model, deadline)
                works += [_work_of(one, deadline, self.settings.batch_tokens) for one in prepared]
                self.batcher.submit(works)
                request.state.texts = len(works)
                request.state.tokens = sum(work.tokens for work in works)
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
            async for chunk in self._chunks(request):
                taken += len(chunk)
                self._bytes += len(chunk)
                if taken > limit:
                    raise RefusalError(413, f"a body above {limit:,} bytes: send less", {"Connection": "close"})
                if self._bytes > self.settings.waiting_bytes:
                    raise RefusalError(503, "too many requests are in memory: try again", {"Retry-After": "1"})
                chunks.append(chunk)
            yield b"".join(chunks)
        finally:
            self._bytes -= taken

    async def _chunks(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the parts of a body as they arrive.

        Raises:
            RefusalError: they do not arrive in time.
        """
        try:
            async with asyncio.timeout(self.settings.reading_seconds):
                async for chunk in request.stream():
                    yield chunk
        except TimeoutError:
            raise RefusalError(408, "the body did not arrive in time", {"Connection": "close"}) from None

    def gauges(self) -> None:
        """Set the gauges to what is true now."""
        self.metrics.waiting.set(self.batcher.waiting_tokens)
        self.metrics.bodies.set(self._bytes)


def _work_of(prepared: Prepared, deadline: float, most: int) -> Work:
    """Return what is computed for a text: all at once, or in parts where it has more tokens than a batch."""
    parts = prepared.parts(most) if prepared.tokens > most else []
    return Work(prepared, prepared.tokens, deadline, [(part, part.tokens) for part in parts], prepared.joined)
