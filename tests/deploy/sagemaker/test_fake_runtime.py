"""The stand-in for the service's address keeps the limits of the service."""

from __future__ import annotations

import json
import re
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest

from d2lbert.deploy.sagemaker.fake_runtime import MOST_BYTES, fake_runtime


class Container(BaseHTTPRequestHandler):
    """Answers with the headers that it got; the body says how.

    Attributes:
        bodies: all that came.
    """

    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        asked = json.loads(self.bodies[-1].strip())
        time.sleep(asked.get("seconds", 0))
        seen = {"path": self.path, **{name.lower(): value for name, value in self.headers.items()}}
        content = json.dumps(seen).encode() + b" " * asked.get("spaces", 0)
        self.send_response(asked.get("status", 200))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content) + asked.get("missing", 0)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Container)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def ask(address: str, content: Any, **headers: str) -> httpx.Response:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return httpx.post(f"{address}/endpoints/films/invocations", content=body, headers=headers, timeout=30)


def test_only_known_headers_reach_the_container(port: int) -> None:
    with fake_runtime(port) as address:
        given = {"X-Amzn-SageMaker-Custom-Attributes": "model=a", "X-Mine": "1", "Authorization": "secret"}
        answer = ask(address, {}, **given, Accept="text/csv")
    assert answer.status_code == 200
    assert answer.headers["x-Amzn-Invoked-Production-Variant"] == "AllTraffic"
    seen = answer.json()
    assert (seen["path"], seen["accept"]) == ("/invocations", "text/csv")
    assert seen["x-amzn-sagemaker-custom-attributes"] == "model=a"
    assert not {"x-mine", "authorization"} & set(seen)


def test_every_refusal_of_the_container_is_a_424(port: int) -> None:
    with fake_runtime(port) as address:
        for status in (400, 429, 503):
            answer = ask(address, {"status": status})
            assert answer.status_code == 424
            assert answer.headers["x-amzn-ErrorType"] == "ModelError"
            assert answer.json()["OriginalStatusCode"] == status
        assert httpx.post(f"{address}/elsewhere", content=b"{}").status_code == 400


def test_what_takes_too_long_or_is_too_large(port: int) -> None:
    with fake_runtime(port, seconds=0.2) as address:
        answer = ask(address, {"seconds": 1})
        assert (answer.status_code, answer.json()["OriginalStatusCode"]) == (424, 0)
        assert "timed out" in answer.json()["Message"]
        assert ask(address, b"{}" + b" " * (MOST_BYTES - 2)).status_code == 200
        assert ask(address, b"{}" + b" " * (MOST_BYTES - 1)).status_code == 413
        # A client that sends all before it reads must not be cut off.
        with pytest.raises(urllib.error.HTTPError, match="413"):
            urllib.request.urlopen(f"{address}/endpoints/films/invocations", b" " * 3 * MOST_BYTES, timeout=30)
        assert "bytes, more than" in ask(address, {"spaces": MOST_BYTES}).json()["Message"]


def test_half_an_answer_is_none(port: int) -> None:
    with fake_runtime(port) as address:
        assert ask(address, {"missing": 5}).status_code == 424


def test_an_archive_is_unpacked_and_loaded_before_it_is_asked(port: int, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "config.json", "config.json")
    (tmp_path / "half.tar.gz").write_bytes((tmp_path / "a.tar.gz").read_bytes()[:60])
    target = "X-Amzn-SageMaker-Target-Model"
    with fake_runtime(port, models=tmp_path) as address:
        seen = ask(address, {}, **{target: "a.tar.gz"}).json()
        assert re.fullmatch(r"/models/[0-9a-f]{32}/invoke", seen["path"])
        assert seen[target.lower()] == "a.tar.gz"
        asked = json.loads(Container.bodies[-2])
        assert asked["model_name"] == seen["path"].split("/")[2]
        assert (Path(asked["url"]) / "config.json").read_text() == "{}"
        for name in ("b.tar.gz", "half.tar.gz", "config.json", "../a.tar.gz"):
            answer = ask(address, {}, **{target: name})
            assert (answer.status_code, answer.headers["x-amzn-ErrorType"]) == (400, "ValidationError")
    assert not Path(asked["url"]).exists()
    with fake_runtime(port) as address:
        assert "this endpoint holds one model" in ask(address, {}, **{target: "a.tar.gz"}).json()["Message"]


def test_no_container_is_told_like_a_slow_one() -> None:
    with fake_runtime(1) as address:
        assert ask(address, {}).status_code == 424
