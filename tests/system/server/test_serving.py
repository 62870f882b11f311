"""The server under load: crowds, overload, slow clients, new weights, a kill."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from server_support import (
    CONTENT,
    Running,
    answers,
    at_once,
    free_port,
    in_waves,
    serving,
    wait_until_ready,
)

pytestmark = pytest.mark.slow


def test_a_thousand_clients_at_once_are_all_answered(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        assert answers(at_once(running.address, 1000)) == {200: 1000}
        assert running.stop() in (0, -signal.SIGTERM)


def test_overload_is_refused_and_what_is_accepted_is_answered(tmp_path: Path) -> None:
    """Four times as much as the queue holds."""
    with serving(tmp_path, "--queue-tokens", "2000", "--batch-tokens", "500") as running:
        tokens = 27
        counts = answers(at_once(running.address, 4 * 2000 // tokens))
        assert set(counts) == {200, 429}
        # What waits is never more than the queue, and it was full when the first was refused.
        assert counts[200] >= 2000 // tokens
        assert httpx.get(f"{running.address}/ping", timeout=30).status_code == 200


def test_at_four_times_the_capacity_nobody_who_is_let_in_waits_for_long(tmp_path: Path) -> None:
    """Waiting is counted in answers that others get meanwhile, which does not depend on how busy this machine is.

    Without a bound the last of so many would wait for nine times what the queue holds.
    """
    count = 2000 // 27  # what the queue holds
    with serving(tmp_path, "--queue-tokens", "2000", "--batch-tokens", "500") as running:
        at_once(running.address, count)  # the first requests are slower
        full = max(reply.came - reply.sent for reply in at_once(running.address, count))
        replies = in_waves(running.address, count, 12, full / 4)
        assert set(answers(replies)) == {200, 429}
        accepted = [reply for reply in replies if reply.status == 200]
        assert len(accepted) > 2 * count, "it goes on with its work meanwhile"
        waited = sorted(sum(one.sent < other.came < one.came for other in accepted) for one in accepted)
        assert waited[int(0.99 * len(waited))] < 3 * count, waited[-1]


def test_kill_is_seen_by_every_client(tmp_path: Path) -> None:
    """Nobody gets half an answer, and a new server starts at the same port at once."""
    with serving(tmp_path) as running:
        replies = at_once(running.address, 300, running.process.kill)
        assert set(answers(replies)) <= {0, 200}
        assert sum(reply.status == 0 for reply in replies) > 0
    with serving(tmp_path) as running:
        assert answers(at_once(running.address, 3)) == {200: 3}


def test_a_model_is_loaded_anew_while_it_answers(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        load = f"{running.address}/v2/repository/models/minilm-sst2/load"
        assert answers(at_once(running.address, 200, lambda: httpx.post(load, timeout=60).raise_for_status())) == {
            200: 200
        }


def open_connections(running: Running, count: int) -> list[socket.socket]:
    """Connect so many clients that wait for a minute at most."""
    port = int(running.address.rsplit(":", 1)[1])
    return [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(count)]


def all_that_comes(client: socket.socket) -> bytes:
    """What a client gets until the server closes the connection."""
    got = b""
    while part := client.recv(65_536):
        got += part
    client.close()
    return got


def is_408(got: bytes, part: str) -> bool:
    """Whether a client was told that a part of its request did not arrive in time."""
    head, _, body = got.partition(b"\r\n\r\n")
    error = f"the {part} did not arrive in time"
    return b" 408 " in head.splitlines()[0] and json.loads(body) == {"error": error} and body.count(b"\n") == 1


def test_slow_clients_do_not_stop_others(tmp_path: Path) -> None:
    """Each of them is told, and its connection closed; who has sent nothing at all is told nothing."""
    with serving(tmp_path, "--reading-seconds", "2") as running:
        slow = open_connections(running, 60)
        head = b"POST /invocations HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
        for number, client in enumerate(slow):
            client.sendall((b"", head, head + b"\r\n{")[number % 3])
        assert answers(at_once(running.address, 20)) == {200: 20}
        got = [all_that_comes(client) for client in slow]
        assert got[::3] == [b""] * 20
        assert all(is_408(one, "head of the request") for one in got[1::3])
        assert all(is_408(one, "body") for one in got[2::3])


def test_half_heads_do_not_take_all_files(tmp_path: Path) -> None:
    """More of them than the server may open files: they are closed long before their time, and others get through."""
    with serving(tmp_path, "--reading-seconds", "1000") as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        slow = open_connections(running, 300)
        for client in slow:
            with contextlib.suppress(OSError):  # there is no room for the last ones
                client.sendall(b"GET /ping HTTP/1.1\r\nHost:")
        wait_until_ready(running)
        assert is_408(all_that_comes(slow[0]), "head of the request")
        for client in slow:
            client.close()


def test_a_port_that_is_taken_is_told_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "d2lbert.cli", "serve", "--model", "minilm-sst2", "--port", port]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        f"d2lbert: nothing can listen at 127.0.0.1:{port} (Address already in use): choose another --port or --host"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "minilm-sst2", "--model", "minilm-sst2"], "given twice; write NAME=FOLDER"),
        (["--model", "=x"], "is empty or given twice"),
        (["--model", "minilm"], "names no head that is known here"),
        (["--model", "nowhere"], "nowhere"),
        (["--model", "minilm-sst2", "--batch-tokens", "0"], "batch_tokens is 0"),
    ],
)
def test_mistakes_end_in_one_line(options: list[str], message: str) -> None:
    command = [sys.executable, "-m", "d2lbert.cli", "serve", "--port", str(free_port()), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert len(run.stderr.strip().splitlines()) == 1
    assert message in run.stderr


def test_the_log_has_a_line_for_each_request_and_no_text(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        httpx.post(f"{running.address}/invocations", json={**CONTENT, "text": "Rumpelstilzchen"}, timeout=30)
        httpx.post(f"{running.address}/invocations?model=Rumpelstilzchen", json={"text": "x"}, timeout=30)
        running.stop()
        log = running.log.read_text()
    lines = [json.loads(line[line.index("{") :]) for line in log.splitlines() if "/invocations" in line]
    assert [line["status"] for line in lines] == [200, 422]
    assert lines[0]["tokens"] > 2
    assert "Rumpel" not in log


def test_no_time_passes_for_a_batch_to_fill(tmp_path: Path) -> None:
    """A lone request is not kept waiting: its time is that of its batch, by the server's own counters."""
    with serving(tmp_path) as running:
        for _ in range(20):
            httpx.post(f"{running.address}/invocations", json=CONTENT, timeout=30).raise_for_status()
        counted = httpx.get(f"{running.address}/metrics", timeout=30).text
    values = dict(line.rsplit(" ", 1) for line in counted.splitlines() if not line.startswith("#"))
    assert float(values["d2lbert_texts_total"]) == 20
    assert float(values["d2lbert_batch_tokens_count"]) == 20, "each was a batch of its own"
