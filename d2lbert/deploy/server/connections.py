"""Connections whose client is slow to say what it wants.

Uvicorn closes a connection that is idle between two requests. It sets no limit for the head of a request, the lines
before the body; so whoever sends half of one would keep a connection, and with it an open file, for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from d2lbert.deploy.server.core import RefusalError

_CROWDED_SECONDS = 5.0  # that a head may take when half of all files that may be open are connections
# That a connection stays open after a refusal. If it were closed while the client still sends, the system would
# answer with a reset, which can take the refusal away before the client has read it (RFC 9112, section 9.6).
_LAST_SECONDS = 1.0


def impatient_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of HTTP, one that closes connections without a whole head.

    Args:
        seconds: that a head may take, from when the connection is open; of a later request, from its first byte.
    """
    return type("ImpatientProtocol", (_HeadTimer, AutoHTTPProtocol), {"seconds": seconds})


class _HeadTimer(asyncio.Protocol):
    """What the protocol does more than uvicorn's, whichever of them is installed.

    In both, ``cycle`` is the last request whose head was whole; None before the first.
    """

    seconds: float
    transport: Any
    cycle: Any
    loop: asyncio.AbstractEventLoop
    connections: set[Any]  # all of the server
    _timer: asyncio.TimerHandle | None = None
    _since = 0.0
    _begun = False  # whether a part of a head has come
    _refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop()
        elif before is None or before.response_complete:  # no request is being answered: this is part of a head
            self._begun = True
            if self._timer is None:
                self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _start(self) -> None:
        self._since = self.loop.time()
        self._timer = self.loop.call_later(min(self.seconds, _CROWDED_SECONDS), self._look)

    def _stop(self) -> None:
        self._begun = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Close the connection if its time is over, or if too many others are open; else look again."""
        left = self._since + self.seconds - self.loop.time()
        crowded = len(self.connections) > _most_files() / 2
        if left > 0 and not crowded:
            self._timer = self.loop.call_later(left, self._look)
        elif self.transport.is_closing():
            self.transport.abort()  # the client does not read the last answer either
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Close the connection, at once or, where the client is told why, when it has had time to read it."""
        if self._begun:  # who has said nothing expects no answer
            self._refused = True
            self.transport.write(_refusal())
            if self.transport.can_write_eof():
                self.transport.write_eof()
                self._timer = self.loop.call_later(_LAST_SECONDS, self.transport.abort)
                return
        self.transport.close()


def _most_files() -> float:
    """Return how many files may be open; without a limit where the system has none of this kind, as Windows."""
    with contextlib.suppress(ImportError):
        import resource

        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return float("inf")


def _refusal() -> bytes:
    answer = RefusalError(408, "the head of the request did not arrive in time", {"Connection": "close"}).response()
    head = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 408 Request Timeout\r\n" + head + b"\r\n" + bytes(answer.body)
