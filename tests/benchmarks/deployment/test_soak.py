"""A soak: which requests are bad, when the memory is read, and what is counted."""

from __future__ import annotations

import http.server
import itertools
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.bad_requests import HUNG_UP, TOO_LARGE_EVERY, ask_badly, bad_requests
from benchmarks.deployment import soak


class _Refusing(http.server.BaseHTTPRequestHandler):
    """Refuses by what it gets: a large body by hanging up, an unknown type with 415, the rest with 400."""

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        if length > 1_000_000:
            self.connection.close()
            return
        self.rfile.read(length)
        self.send_response(400 if self.headers["Content-Type"] == "application/json" else 415)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def refusing() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_answers_are_counted(refusing: str) -> None:
    large = sum(len(one.body) > 1_000_000 for one in bad_requests(1000))
    foreign = sum(one.kind != "application/json" for one in bad_requests(1000))
    assert large > 0
    assert ask_badly(refusing, 1000) == Counter({"400": 1000 - large - foreign, "415": foreign, HUNG_UP: large})


def test_a_server_that_is_gone_is_no_refusal() -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        address = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(httpx.ConnectError):
        ask_badly(address, 3)


def test_requests_are_the_same_for_a_seed_and_others_for_another() -> None:
    first, again, other = (list(map(repr, bad_requests(60, seed))) for seed in (0, 0, 1))
    assert first == again != other
    large = [number for number, one in enumerate(bad_requests(2000)) if len(one.body) > 1_000_000]
    assert large
    assert all(number % TOO_LARGE_EVERY == 0 for number in large)


def test_the_memory_is_read_before_and_after_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def refused(address: str, count: int, seed: int = 0) -> Counter[str]:
        assert address == soak.ADDRESS
        asked.append((count, seed))
        return Counter({"400": count - 1, "413": 1})

    sizes = itertools.count(100)
    monkeypatch.setattr(soak, "ask_badly", refused)
    monkeypatch.setattr(soak, "memory", lambda process: float(next(sizes)))
    found = soak.soak(1, 4000)
    assert asked == [(200, 0), *((100, part) for part in range(1, 41))]
    assert found["mebibytes"] == [float(size) for size in range(100, 141)]
    assert (found["requests"], found["answers"]) == (4000, {"400": 3960, "413": 40})


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="this system has no /proc")
def test_the_memory_of_a_process_that_holds_more_is_more() -> None:
    """Of a process that does nothing else: in this one a garbage collection could come between."""
    script = "print(flush=True); input(); held = b'x' * 2**26; print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        before = soak.memory(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert soak.memory(process.pid) - before == pytest.approx(64, abs=2)
        process.communicate(b"\n")
