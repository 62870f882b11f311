"""Downloads of data sets: addresses that no server can have, passwords, bounds of size and time, several at once."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from d2lbert import UserError, get_model
from d2lbert.storage import download, receiving
from d2lbert.storage.download import DownloadError


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    download.forget_failures()


def failure(url: str, folder: Path) -> str:
    """Return why a file cannot be downloaded."""
    with pytest.raises(DownloadError) as caught:
        download.download(url, folder / "file")
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://localhost:abc/file", "Port could not be cast to integer value as 'abc'"),
        ("http://localhost:99999/file", "Port out of range 0-65535"),
        ("http://[::1/file", "Invalid IPv6 URL"),
        ("localhost:8000/file", "no host after http:// or https://"),
        ("http:///file", "no host after http:// or https://"),
        ("ftp://localhost/file", "ftp is neither http nor https"),
        ("file://localhost/file", "file is neither http nor https"),
    ],
)
def test_an_address_that_is_not_valid(tmp_path: Path, url: str, reason: str) -> None:
    advice = "D2LBERT_HUB, where it is set, must be like https://HOST or http://HOST:PORT"
    assert failure(url, tmp_path) == f"{url} is no valid address ({reason}), {advice}"


def test_a_hub_whose_address_is_not_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_HUB", "http://localhost:abc")
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path))
    monkeypatch.delenv("D2LBERT_OFFLINE", raising=False)
    with pytest.raises(UserError, match=r"cannot be downloaded: http://localhost:abc\S+ is no valid address") as caught:
        get_model("bert_tiny")
    assert "\n" not in str(caught.value)


def test_a_name_that_no_server_can_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uncaught: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    assert failure("http://.org/file", tmp_path) == "no network (cannot reach .org:80)"
    assert uncaught == []


def test_a_proxy_whose_address_is_not_valid_keeps_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for proxy in ("http://me:secret@proxy:abc", "http://me:secret"):
        monkeypatch.setenv("http_proxy", proxy)
        reason = failure("http://server.invalid/file", tmp_path)
        assert reason == "the proxy has no valid address, correct or unset http_proxy, https_proxy or all_proxy"


def test_a_proxy_may_be_named_without_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "127.0.0.1:9")
    assert failure("http://server.invalid/file", tmp_path) == "no network (cannot reach 127.0.0.1:9)"


@pytest.mark.parametrize(
    "address", ["http://me:s3cret@localhost:abc", "http://me:s3cret@", "ftp://me:s3cret@host", "http://me:s3/cret@host"]
)
def test_a_password_in_a_wrong_address_is_not_shown(address: str, tmp_path: Path) -> None:
    reason = failure(f"{address}/file", tmp_path)
    assert "is no valid address, D2LBERT_HUB" in reason
    assert "s3" not in reason
    assert "cret" not in reason


class Server:
    """A web server. ``answer`` is given each request; ``requests`` counts them."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], None] = lambda request: send(request, CONTENT)
        self.requests = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests += 1
                with contextlib.suppress(OSError):  # the client has left
                    server.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.name = f"127.0.0.1:{self.http.server_port}"
        self.closing = threading.Event()
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()


CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def send(request: Any, body: bytes, length: int | None = None) -> None:
    request.send_response(200)
    if length is not None:
        request.send_header("Content-Length", str(length))
    request.end_headers()
    request.wfile.write(body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.delenv("D2LBERT_OFFLINE", raising=False)
    monkeypatch.setattr(download, "PAUSE", 0)
    running = Server()
    yield running
    running.closing.set()
    running.http.shutdown()
    running.http.server_close()


def test_a_file_comes_whole_and_nothing_else_is_left(server: Server, tmp_path: Path) -> None:
    for sha256, size in ((DIGEST, len(CONTENT)), ("", 0)):
        target = tmp_path / f"set{size}" / "file"
        download.download(f"http://{server.name}/file", target, sha256, size)
        assert target.read_bytes() == CONTENT
        assert [path.name for path in target.parent.iterdir()] == ["file"]


@pytest.mark.parametrize("told", [None, 10**9])
def test_a_body_without_end_stops_at_the_size_that_is_known(told: int | None, server: Server, tmp_path: Path) -> None:
    def endless(request: Any) -> None:
        send(request, b"", told)
        while not server.closing.is_set():
            request.wfile.write(CONTENT)

    server.answer = endless
    with pytest.raises(DownloadError, match=f"^{server.name} sent more than 5000 bytes, too many for this file$"):
        download.download(f"http://{server.name}/file", tmp_path / "file", DIGEST, 5000)
    assert server.requests == 1
    assert not list(tmp_path.iterdir())


def test_a_byte_now_and_then_is_given_up(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "GRACE", 0.4)
    monkeypatch.setattr(receiving, "_LOOK_EVERY", 0.05)

    def trickle(request: Any) -> None:
        send(request, b"", len(CONTENT))
        while not server.closing.wait(0.05):
            request.wfile.write(b"x")
            request.wfile.flush()

    server.answer = trickle
    with pytest.raises(DownloadError, match=rf"^{server.name} sent only \d+ bytes in \d+ seconds$"):
        download.download(f"http://{server.name}/file", tmp_path / "file", DIGEST, len(CONTENT))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("asks", "waits"), [("7", 7), ("100000", 30), ("", 1), ("Wed, 21 Oct 2026 07:28:00 GMT", 1), ("9" * 5000, 1)]
)
def test_a_server_that_asks_to_wait_is_asked_again(
    asks: str, waits: float, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(download, "PAUSE", 1.0)
    monkeypatch.setattr(download, "time", SimpleNamespace(sleep=slept.append))

    def busy(request: Any) -> None:
        server.answer = lambda request: send(request, CONTENT)
        request.send_response(429)
        request.send_header("Retry-After", asks)
        request.send_header("Content-Length", "0")
        request.end_headers()

    server.answer = busy
    download.download(f"http://{server.name}/file", tmp_path / "file", DIGEST)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert slept == [waits]


def test_what_another_process_has_downloaded_is_not_downloaded_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    download.download(f"http://{server.name}/file", tmp_path / "file", DIGEST)
    assert server.requests == 0


def test_leftovers_of_a_killed_download_are_removed(server: Server, tmp_path: Path) -> None:
    (tmp_path / ".download-killed").mkdir()
    (tmp_path / ".download-killed" / "received").write_bytes(b"half")
    download.download(f"http://{server.name}/file", tmp_path / "file", DIGEST)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
