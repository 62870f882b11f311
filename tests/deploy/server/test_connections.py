"""Heads of requests that do not come to their end, with both of uvicorn's protocols."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from d2lbert.deploy.server import connections
from d2lbert.deploy.server.connections import impatient_protocol

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(params=[HttpToolsProtocol, H11Protocol], autouse=True)
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What uvicorn takes depends on what else is installed."""
    monkeypatch.setattr(connections, "AutoHTTPProtocol", request.param)


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer "good" when the body has come."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"good"})


@contextlib.asynccontextmanager
async def served(seconds: float) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    """Serve; what comes connects a client."""
    configuration = uvicorn.Config(app, port=0, http=impatient_protocol(seconds), lifespan="off", log_config=None)
    server = uvicorn.Server(configuration)
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield lambda: asyncio.open_connection("127.0.0.1", port)
    server.should_exit = True
    await running


async def answer(client: Client, request: bytes) -> None:
    """Send a request, or its rest, and read the answer."""
    client[1].write(request)
    async with asyncio.timeout(30):
        assert (await client[0].readuntil(b"good")).startswith(b"HTTP/1.1 200")


async def end(client: Client) -> bytes:
    """What comes until the server closes the connection."""
    async with asyncio.timeout(30):
        got = await client[0].read()
    client[1].close()
    return got


def is_refusal(got: bytes) -> bool:
    head, _, body = got.partition(b"\r\n\r\n")
    told = body == b'{"error": "the head of the request did not arrive in time"}\n'
    return told and head.startswith(b"HTTP/1.1 408 ") and b"connection: close" in head.lower()


def test_half_a_head_is_told_and_nothing_is_told_nothing() -> None:
    async def run() -> None:
        async with served(0.3) as connect:
            silent, half, later = [await connect() for _ in range(3)]
            half[1].write(HEAD[:9])
            await answer(later, HEAD)
            later[1].write(HEAD[:-2])  # a client that asked well before
            assert await end(silent) == b""
            assert is_refusal(await end(half))
            assert is_refusal(await end(later))

    asyncio.run(run())


async def drop(client: Client, until: Callable[[], bool]) -> None:
    """Begin a head and send one line of it after the other."""
    client[1].write(HEAD[:-2])
    while not until():
        client[1].write(b"x: y\r\n")
        await asyncio.sleep(0.02)


def test_drops_of_a_head_give_no_more_time() -> None:
    async def run() -> None:
        async with served(0.5) as connect:
            client = await connect()
            got = asyncio.create_task(end(client))
            await drop(client, got.done)
            assert is_refusal(await got)

    asyncio.run(run())


def test_who_reads_only_after_more_lines_is_told_too() -> None:
    """A connection that is closed while the client sends is reset, and what it had not read is lost."""

    async def run() -> None:
        async with served(0.1) as connect:
            client = await connect()
            client[1].transport.pause_reading()
            loop = asyncio.get_running_loop()
            later = loop.time() + 0.5
            await drop(client, lambda: loop.time() > later)
            client[1].transport.resume_reading()
            assert is_refusal(await end(client))

    asyncio.run(run())


def test_a_refused_client_that_stays_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_LAST_SECONDS", 0.2)
    asked = []

    async def recording(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope)

    monkeypatch.setattr(sys.modules[__name__], "app", recording)

    async def run() -> None:
        async with served(0.1) as connect:
            client = await connect()
            client[1].write(HEAD[:9])
            assert is_refusal(await client[0].read())
            client[1].write(HEAD[9:])  # too late
            async with asyncio.timeout(30):
                await drop(client, client[1].is_closing)
            with pytest.raises(ConnectionError):
                await client[1].drain()

    asyncio.run(run())
    assert not asked


def test_a_connection_is_kept_between_requests() -> None:
    """Nothing comes for longer than a head may take: before the second request, and before the rest of its body."""

    async def run() -> None:
        async with served(0.3) as connect:
            client = await connect()
            await answer(client, HEAD)
            await asyncio.sleep(0.6)
            await answer(client, HEAD + HEAD)
            await answer(client, b"")
            client[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\na")
            await asyncio.sleep(0.6)
            await answer(client, b"bc")
            client[1].close()

    asyncio.run(run())


def test_where_many_are_open_a_head_has_less_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_CROWDED_SECONDS", 0.1)
    monkeypatch.setattr(connections, "_most_files", lambda: 8)

    async def run() -> None:
        async with served(1000) as connect:
            few = [await connect() for _ in range(4)]
            await asyncio.sleep(0.3)
            await answer(few[0], HEAD)
            many = [await connect() for _ in range(4)]
            for client in many:
                client[1].write(HEAD[:9])
            assert is_refusal(await end(many[0]))
            for client in few:
                await answer(client, HEAD)
                client[1].close()

    asyncio.run(run())


def test_a_system_without_limits_of_files_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connections._most_files() > 16
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows: the import fails
    assert connections._most_files() == float("inf")
