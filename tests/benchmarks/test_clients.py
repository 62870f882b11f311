"""Clients that load a server count what it answers, and how long they waited."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.clients import send

DELAY = 0.05
CONTENTS = [{"text": letter} for letter in "abcd"]


@pytest.fixture
def port_and_bodies() -> Iterator[tuple[int, list[str]]]:
    """A server that answers after a moment and refuses the text d, and what it has been sent."""
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
            bodies.append(text)
            time.sleep(DELAY)
            self.send_response(429 if text == "d" else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1], bodies
    server.shutdown()
    server.server_close()


def test_each_client_waits_for_its_answer_and_begins_at_another_text(port_and_bodies: tuple[int, list[str]]) -> None:
    port, bodies = port_and_bodies
    found = send(port, "/", CONTENTS, clients=4, seconds=6 * DELAY)
    assert sorted(bodies[:4]) == ["a", "b", "c", "d"]
    assert len(found.waited) + found.refused == len(bodies)
    assert found.refused == bodies.count("d") > 0
    assert min(found.waited) >= DELAY
    # No client has two requests under way.
    assert len(bodies) <= 4 * (found.seconds / DELAY + 1)


def test_what_is_under_way_at_the_end_is_waited_for(port_and_bodies: tuple[int, list[str]]) -> None:
    found = send(port_and_bodies[0], "/", CONTENTS[:1], clients=2, seconds=DELAY / 100)
    assert len(found.waited) == 2
    assert found.seconds >= DELAY
