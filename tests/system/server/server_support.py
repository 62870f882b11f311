"""A server as users start it, in a process of its own, and clients that come at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

CONTENT = {"text": "a warm and funny film, and long enough to take a moment " * 2, "model": "minilm-sst2"}


@dataclass
class Running:
    """A server that answers.

    Fields:
        process: of ``d2lbert serve``.
        address: where it listens.
        log: the file of its output.
    """

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(folder: Path, *options: str, models: Sequence[str] = ("minilm-sst2", "minilm-wnut17")) -> Iterator[Running]:
    """Start a server and wait until it is ready; end it afterwards, whatever happens."""
    port, log = free_port(), folder / "server.log"
    command = [sys.executable, "-m", "d2lbert.cli", "serve", "--port", str(port), *options]
    command += [part for model in models for part in ("--model", model)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env=environment)
    running = Running(process, f"http://127.0.0.1:{port}", log)
    try:
        wait_until_ready(running)
        yield running
    finally:
        process.kill()
        process.wait(60)


def wait_until_ready(running: Running) -> None:
    """Ask until the server answers; two minutes at least, and no longer than its process lives."""
    for _ in range(1200):
        if running.process.poll() is not None:
            raise AssertionError(running.log.read_text())
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{running.address}/ping", timeout=10).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the server is not ready after two minutes")


@dataclass
class Reply:
    """What a client got: a status and a body, or status 0 and the error of the connection; and when, in seconds."""

    status: int
    body: Any
    sent: float
    came: float


async def ask(client: httpx.AsyncClient, content: dict[str, str] = CONTENT) -> Reply:
    """Send one request."""
    sent = time.monotonic()
    try:
        response = await client.post("/invocations", json=content)
        status, body = response.status_code, response.json()
    except httpx.HTTPError as error:
        status, body = 0, type(error).__name__
    return Reply(status, body, sent, time.monotonic())


def answers(replies: list[Reply]) -> Counter[int]:
    """Count the statuses; every answer is whole, and all good ones are the same."""
    labels = {reply.body["label"] for reply in replies if reply.status == 200}
    assert labels <= {"positive"}
    assert all(set(reply.body) == {"error"} for reply in replies if reply.status not in (0, 200))
    return Counter(reply.status for reply in replies)


def at_once(
    address: str, count: int, meanwhile: Callable[[], Any] = lambda: None, content: dict[str, str] = CONTENT
) -> list[Reply]:
    """Send ``count`` requests at once, call a function while they are under way, and return all replies."""

    async def run() -> list[Reply]:
        limits = httpx.Limits(max_connections=count, max_keepalive_connections=count)
        async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as client:
            tasks = [asyncio.create_task(ask(client, content)) for _ in range(count)]
            await asyncio.sleep(0.3)
            await asyncio.to_thread(meanwhile)
            return await asyncio.gather(*tasks)

    return asyncio.run(run())


def in_waves(address: str, count: int, waves: int, pause: float) -> list[Reply]:
    """Send ``count`` requests, again and again after a pause in seconds, whether others are answered or not.

    Each has a connection of its own and speaks just enough HTTP: with a client that keeps connections for later, so
    many requests waited for the client, not for the server.
    """
    host, port = address.removeprefix("http://").split(":")
    body = json.dumps(CONTENT).encode()
    head = f"POST /invocations HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def one() -> Reply:
        sent = time.monotonic()
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        answer, _, content = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return Reply(int(answer.split()[1]), json.loads(content), sent, time.monotonic())

    async def run() -> list[Reply]:
        tasks = []
        for _ in range(waves):
            tasks += [asyncio.create_task(one()) for _ in range(count)]
            await asyncio.sleep(pause)
        return await asyncio.gather(*tasks)

    return asyncio.run(run())


def is_refusal(response: Any, status: int, message: str) -> None:
    """A status and one line of JSON."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.text.count("\n") == 1
    assert message in response.json()["error"]
