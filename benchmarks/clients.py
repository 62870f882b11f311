"""Clients of an HTTP server: each sends a request, waits for the answer, and sends the next one.

They speak just enough HTTP to keep a connection open, so that they take little of the processor that the server needs.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Answered:
    """What clients saw.

    Fields:
        seconds: how long all of them together took.
        waited: for each answer, the seconds from request to answer.
        refused: how many answers had another status than 200.
    """

    seconds: float = 0.0
    waited: list[float] = field(default_factory=list)
    refused: int = 0


def send(port: int, path: str, contents: Sequence[object], clients: int, seconds: float) -> Answered:
    """Let clients send requests, one at a time each, for some seconds; requests under way are waited for.

    Every client sends at least one.

    Args:
        port: of this machine.
        path: of the requests.
        contents: bodies, as JSON; sent in turn, again and again.
        clients: how many send at the same time.
    """
    bodies = [json.dumps(content).encode() for content in contents]
    return asyncio.run(_send(port, path, bodies, clients, seconds))


async def _send(port: int, path: str, bodies: Sequence[bytes], clients: int, seconds: float) -> Answered:
    found, began = Answered(), time.perf_counter()
    share = max(1, len(bodies) // clients)  # each client begins at another text
    await asyncio.gather(
        *(_client(port, path, bodies, number * share, began + seconds, found) for number in range(clients))
    )
    found.seconds = time.perf_counter() - began
    return found


async def _client(port: int, path: str, bodies: Sequence[bytes], first: int, end: float, found: Answered) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = first
    while number == first or time.perf_counter() < end:
        body = bodies[number % len(bodies)]
        number += 1
        asked = time.perf_counter()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        status = await _answer(reader)
        if status == 200:
            found.waited.append(time.perf_counter() - asked)
        else:
            found.refused += 1
    writer.close()
    await writer.wait_closed()


async def _answer(reader: asyncio.StreamReader) -> int:
    """Read an answer to its end; return its status."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    await reader.readexactly(int(fields["content-length"]))
    return int(head[0].split()[1])
