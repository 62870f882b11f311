"""Servers that misbehave, or have less than the hub: a file comes whole, or one line says why not, and soon."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import logging
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hub_support import Hub
from huggingface_hub import constants, file_download

from d2lbert.storage import download, receiving
from d2lbert.storage.download import DownloadError
from d2lbert.zoo.hub import download_from_hub, newest_revision
from d2lbert.zoo.table import ModelEntry

ENTRY = ModelEntry("model", "CC0", "key", repository="some/model", revision="0" * 40, weights="model.safetensors")
PATH = f"/some/model/resolve/{'0' * 40}/vocab.txt"
CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
GOES_ON = pytest.mark.skipif(
    int(importlib.metadata.version("huggingface_hub").partition(".")[0]) < 2,
    reason="huggingface_hub before 2 does not go on where a connection broke off",
)


class Server:
    """A web server. ``answer`` is given each request, and ``requests`` counts those for the bytes of a file."""

    def __init__(self) -> None:
        self.answer: Callable[[Any], None] = plain
        self.requests = 0
        self.closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                server.answer(self)

            def do_GET(self) -> None:
                server.requests += 1
                server.answer(self)

            def handle(self) -> None:
                with contextlib.suppress(OSError):  # the client has left
                    super().handle()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self.name = self.url.removeprefix("http://")
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()


def plain(request: Any, body: bytes = CONTENT, length: int | None = None) -> None:
    """Answer as a server of files does, without what the hub has beyond that, and without resuming."""
    request.send_response(200)
    if length != -1:
        request.send_header("Content-Length", str(len(body) if length is None else length))
    request.end_headers()
    if request.command == "GET":
        request.wfile.write(body)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("D2LBERT_OFFLINE", "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "PAUSE", 0)
    monkeypatch.setattr(file_download, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 1000)
    download.forget_failures()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    running = Server()
    monkeypatch.setenv("D2LBERT_HUB", running.url)
    yield running
    running.close()


def failure(folder: Path, sha256: str = "") -> str:
    """Return why the vocabulary cannot be downloaded, and see that nothing of it is left."""
    with pytest.raises(DownloadError) as caught:
        download_from_hub(ENTRY, "vocab.txt", folder, sha256)
    assert not folder.exists() or not list(folder.iterdir())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("sha256", [DIGEST, ""])
def test_a_mirror_is_any_server_with_the_files(sha256: str, server: Server, tmp_path: Path) -> None:
    download_from_hub(ENTRY, "vocab.txt", tmp_path, sha256)
    assert (tmp_path / "vocab.txt").read_bytes() == CONTENT
    (tmp_path / "ours").touch()
    assert (tmp_path / "vocab.txt").stat().st_mode == (tmp_path / "ours").stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "vocab.txt"]


@GOES_ON
def test_what_broke_off_goes_on_from_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Hub().serving() as hub:
        monkeypatch.setenv("D2LBERT_HUB", hub.url)
        hub.files[PATH] = CONTENT
        hub.missing = len(CONTENT) - 2500  # each answer is cut there: the second begins behind it and has nothing

        def whole(seconds: float) -> None:
            hub.missing = 0

        monkeypatch.setattr(file_download, "time", SimpleNamespace(sleep=whole))
        monkeypatch.setattr(download, "ATTEMPTS", 1)
        download_from_hub(ENTRY, "vocab.txt", tmp_path, DIGEST)
        ranges = [headers.get("Range") for method, _, headers in hub.requests if method == "GET"]
    assert (tmp_path / "vocab.txt").read_bytes() == CONTENT
    assert ranges == [None, "bytes=2000-"]  # two whole chunks had come


@GOES_ON
def test_a_server_that_always_breaks_off_and_cannot_go_on_is_given_up(server: Server, tmp_path: Path) -> None:
    server.answer = lambda request: plain(request, CONTENT[:9000], len(CONTENT))
    assert failure(tmp_path) == f"the connection to {server.name} failed, and it cannot go on from there"
    assert server.requests == 2 * download.ATTEMPTS
    assert failure(tmp_path) == f"the connection to {server.name} failed, and it cannot go on from there"
    assert server.requests == 2 * download.ATTEMPTS  # asked once more, it is not tried once more


@pytest.mark.parametrize("length", [len(CONTENT), -1])
def test_a_body_of_another_size_is_refused(length: int, server: Server, tmp_path: Path) -> None:
    def answer(request: Any, body: bytes) -> None:
        announced = len(CONTENT) if request.command == "HEAD" else length
        plain(request, body, announced if length == -1 else len(CONTENT if request.command == "HEAD" else body))

    server.answer = lambda request: answer(request, CONTENT + b"more")
    size = len(CONTENT)
    assert failure(tmp_path) == f"{server.name} sent more than the {size} bytes that it told of"
    download.forget_failures()
    server.answer = lambda request: answer(request, CONTENT[:5000])
    assert failure(tmp_path) == f"{server.name} sent 5000 of {size} bytes of {server.url}{PATH}"


def test_a_server_that_never_ends_is_cut_off(server: Server, tmp_path: Path) -> None:
    def answer(request: Any) -> None:
        plain(request, b"", len(CONTENT) if request.command == "HEAD" else -1)
        while request.command == "GET":
            request.wfile.write(CONTENT)

    server.answer = answer
    assert "sent more than" in failure(tmp_path)


def test_a_server_that_keeps_silent_is_asked_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "READ_TIMEOUT", 0.3)
    methods = []

    def answer(request: Any) -> None:
        methods.append(request.command)
        server.closing.wait(30)

    server.answer = answer
    assert failure(tmp_path) == f"the connection to {server.name} failed (ReadTimeout)"
    assert methods == ["HEAD"]


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_a_byte_now_and_then_is_given_up(
    method: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "GRACE", 0.4)
    monkeypatch.setattr(receiving, "_LOOK_EVERY", 0.05)

    def trickle(request: Any) -> None:
        if request.command != method:
            plain(request)
            return
        if method == "GET":
            plain(request, b"", len(CONTENT))
        while not server.closing.wait(0.05):
            request.wfile.write(b"x")  # of the first line of the answer, or of the file
            request.wfile.flush()

    server.answer = trickle
    assert re.fullmatch(rf"{server.name} sent only \d+ bytes in \d+ seconds", failure(tmp_path))
    with pytest.raises(DownloadError, match="sent only 0 bytes" if method == "HEAD" else "names no commit"):
        newest_revision("some/model")


@pytest.mark.parametrize(("status", "requests"), [(401, 1), (404, 1), (429, 3), (500, 3), (503, 3)])
def test_an_answer_without_the_file(status: int, requests: int, server: Server, tmp_path: Path) -> None:
    methods = []

    def answer(request: Any) -> None:
        methods.append(request.command)
        request.send_error(status)

    server.answer = answer
    assert failure(tmp_path) == f"{server.name} answered {status} for {server.url}{PATH}"
    assert len(methods) == requests


def test_a_server_that_recovers_is_asked_again(server: Server, tmp_path: Path) -> None:
    answers = [lambda request: request.send_error(503), lambda request: request.connection.shutdown(socket.SHUT_RDWR)]
    server.answer = lambda request: (answers.pop() if answers else plain)(request)
    download_from_hub(ENTRY, "vocab.txt", tmp_path, DIGEST)
    assert (tmp_path / "vocab.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/x", "/again", "http://[::1/x"])
def test_a_redirection_to_nowhere(address: str, server: Server, tmp_path: Path) -> None:
    def answer(request: Any) -> None:
        request.send_response(302)
        request.send_header("Location", address)
        request.send_header("Content-Length", "0")
        request.end_headers()

    server.answer = answer
    assert f"the connection to {server.name} failed" in failure(tmp_path)


def test_a_wrong_file_is_not_taken_nor_is_the_old_one_lost(server: Server, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"old")
    with pytest.raises(DownloadError, match="sent a file whose sha256 is not the known one"):
        download_from_hub(ENTRY, "vocab.txt", tmp_path, "0" * 64)
    assert server.requests == 1
    assert (tmp_path / "vocab.txt").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    hint = "D2LBERT_CACHE may name another"
    with pytest.raises(DownloadError, match=f"the cache .*file cannot be written .*, {hint}"):
        download_from_hub(ENTRY, "vocab.txt", tmp_path / "file", "")

    def full(self: Any, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("d2lbert.zoo.hub.GrowingFile.write", full)
    assert failure(tmp_path / "new") == f"the cache {tmp_path / 'new'} cannot be written ({os.strerror(28)}), {hint}"


def test_a_name_look_up_that_hangs_does_not_hang_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    release, finished = threading.Event(), threading.Event()

    def hang(*arguments: Any, **options: Any) -> list:
        release.wait(20)
        finished.set()
        raise socket.gaierror("name not found")

    monkeypatch.setattr(download, "CONNECT_TIMEOUT", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setenv("D2LBERT_HUB", "http://hub.invalid")
    try:
        assert failure(tmp_path) == "no network (cannot reach hub.invalid:80)"
        assert not finished.is_set()
    finally:
        release.set()


def test_the_librarys_own_offline_mode_is_obeyed(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    program = (
        "import sys; from pathlib import Path; from d2lbert.zoo.hub import download_from_hub\n"
        "from d2lbert.zoo.table import ModelEntry; from d2lbert.storage.download import DownloadError\n"
        "entry = ModelEntry('m', '', '', repository='some/model', revision='0' * 40)\n"
        "try: download_from_hub(entry, 'vocab.txt', Path(sys.argv[1]), '')\n"
        "except DownloadError as error: print(error)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (run.stdout, run.stderr) == ("HF_HUB_OFFLINE=1 forbids the network\n", "")
    assert server.requests == 0


def test_nothing_of_the_user_is_sent_and_only_the_file_is_asked_for(tmp_path: Path) -> None:
    """No token, no report, no word of the attempts; the library's own folders and settings are as they were."""
    program = (
        "import sys; from pathlib import Path; from d2lbert.zoo.hub import download_from_hub\n"
        "from d2lbert.zoo.table import ModelEntry; from huggingface_hub import constants\n"
        "entry = ModelEntry('m', '', '', repository='some/model', revision='0' * 40)\n"
        "download_from_hub(entry, 'vocab.txt', Path(sys.argv[1]), '')\n"
        "print(constants.HF_HUB_DISABLE_TELEMETRY)"
    )
    with Hub().serving() as hub:
        hub.files[PATH] = CONTENT
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        environment |= {"D2LBERT_HUB": hub.url, "HF_ENDPOINT": hub.url, "HF_TOKEN": "hf_secret"}
        environment |= {"HF_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
        command = [sys.executable, "-c", program, str(tmp_path / "model")]
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (run.stdout, run.stderr) == ("False\n", "")
    assert [(method, path) for method, path, _ in hub.requests] == [("HEAD", PATH), ("GET", PATH)]
    for _, _, headers in hub.requests:
        assert "hf_secret" not in str(headers)
        assert "torch" not in headers["User-Agent"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["vocab.txt"]


def test_attempts_are_not_logged_and_the_loggers_level_stays(server: Server, tmp_path: Path) -> None:
    logger = logging.getLogger("huggingface_hub")
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    level = logger.level
    server.answer = lambda request: plain(request, CONTENT[:9000], len(CONTENT))
    try:
        failure(tmp_path)
    finally:
        logger.removeHandler(handler)
    assert not records
    assert logger.level == level
