"""A hub that answers with anything but the model: one line, nothing believed, asked again the next time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fork_server import Ended

SURFACE = "3b hostile hub"
MODEL = "bert_12_768_12:wiki_cn_cased"
HTML = b"<html><title>Log in</title></html>" * 50
PICKLE = b"cos\nsystem\n(S'touch it-ran'\ntR."
# Two attempts, and no pause between those of huggingface_hub either.
WITHOUT_PAUSES = """
from types import SimpleNamespace
from d2lbert.storage import download
from huggingface_hub import file_download
download.PAUSE, download.ATTEMPTS = 0, 2
file_download.time = SimpleNamespace(sleep=lambda seconds: None)
"""
Attack, Refused = Callable[..., Ended], Callable[..., None]


class HostileHub:
    """A web server that gives every request the same answer.

    Attributes:
        answer: status, headers and body.
        requests: the paths that were asked for.
    """

    def __init__(self) -> None:
        self.answer: tuple[int, dict[str, str], bytes] = (404, {}, b"")
        self.requests: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer()

            def do_GET(self) -> None:
                self.wfile.write(self._answer())

            def _answer(self) -> bytes:
                hub.requests.append(self.path)
                status, headers, body = hub.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                return body

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def hub() -> Iterator[HostileHub]:
    hostile = HostileHub()
    thread = threading.Thread(target=hostile.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield hostile
    hostile.server.shutdown()
    hostile.server.server_close()


def _body(content: bytes, **headers: str) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Length": str(len(content)), "ETag": '"0"', **headers}, content


ANSWERS = {
    "no such file": (404, {}, b""),
    "forbidden": (403, {}, b""),
    "log in first": (401, {}, b""),
    "gone": (410, {}, b""),
    "too many requests": (429, {"Retry-After": "1"}, b""),
    "a broken server": (500, {}, b""),
    "a busy server": (503, {}, b""),
    "a status that is none": (299, {}, b""),
    "HTML": _body(HTML),
    "nothing": _body(b""),
    "random bytes": _body(bytes(range(256)) * 64),
    "a pickle": _body(PICKLE),
    "a body cut short": (200, {"Content-Length": "1000000", "ETag": '"0"'}, b"x" * 100),
    "no length": (200, {"ETag": '"0"'}, HTML),
    "a length that is none": (200, {"Content-Length": "many", "ETag": '"0"'}, HTML),
    "a negative length": (200, {"Content-Length": "-5", "ETag": '"0"'}, HTML),
    "gzip that is none": _body(b"not packed", **{"Content-Encoding": "gzip"}),
    "a circle": (302, {"Location": "/again"}, b""),
    "a way to a file": (302, {"Location": "file:///etc/passwd"}, b""),
    "a way to FTP": (302, {"Location": "ftp://127.0.0.1/x"}, b""),
    "a way to nowhere": (302, {"Location": "http://127.0.0.1:1/x"}, b""),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_no_model(
    name: str, hub: HostileHub, attack: Attack, refused: Refused, tmp_path: Path
) -> None:
    hub.answer = ANSWERS[name]
    environment = {"D2LBERT_HUB": hub.url, "D2LBERT_CACHE": str(tmp_path / "cache"), "D2LBERT_OFFLINE": "0"}
    words = ("predict", "classification", "--model", MODEL, "--text", "good")
    refused(attack(*words, environment=environment, before=WITHOUT_PAUSES))
    assert hub.requests
    assert not list(tmp_path.rglob("it-ran"))
    assert not list((tmp_path / "cache").rglob("tmp*"))
    assert not list((tmp_path / "cache").rglob("*.incomplete"))


@pytest.mark.parametrize("name", ["HTML", "nothing", "no length"])
def test_a_wrong_first_answer_is_asked_for_again(name: str, hub: HostileHub, attack: Attack, tmp_path: Path) -> None:
    environment = {"D2LBERT_HUB": hub.url, "D2LBERT_CACHE": str(tmp_path / "cache"), "D2LBERT_OFFLINE": "0"}
    words = ("predict", "classification", "--model", MODEL, "--text", "good")
    hub.answer = ANSWERS[name]
    attack(*words, environment=environment)
    before = len(hub.requests)
    attack(*words, environment=environment)
    assert len(hub.requests) > before


ADDRESSES = ["nonsense", "http://", "http://127.0.0.1:99999", "http://127.0.0.1:1", "http://[::1"]


@pytest.mark.parametrize("address", [*ADDRESSES, "ftp://127.0.0.1", "file:///etc"])
def test_an_address_that_is_none(address: str, attack: Attack, refused: Refused, tmp_path: Path) -> None:
    environment = {"D2LBERT_HUB": address, "D2LBERT_CACHE": str(tmp_path / "cache"), "D2LBERT_OFFLINE": "0"}
    refused(attack("predict", "classification", "--model", MODEL, "--text", "good", environment=environment))


def test_a_password_is_not_printed(attack: Attack, tmp_path: Path) -> None:
    environment = {"D2LBERT_HUB": "http://me:s3cret@127.0.0.1:1", "D2LBERT_CACHE": str(tmp_path)}
    ended = attack("predict", "classification", "--model", MODEL, "--text", "a", environment=environment)
    assert "s3cret" not in ended.stdout + ended.stderr
    environment["D2LBERT_OFFLINE"] = "0"
    ended = attack("predict", "classification", "--model", MODEL, "--text", "a", environment=environment)
    assert "s3cret" not in ended.stdout + ended.stderr


NAMES = [
    "nosuchmodel",
    "../../etc",
    "bert_12_768_12",
    "minilm:nosuchset",
    "",
    " ",
    "a" * 1000,
    "\x1b[31m",
    "elmo-small",
    "transformer-en-de",
]


@pytest.mark.parametrize("name", NAMES, ids=[repr(name[:12]) for name in NAMES])
def test_a_name_that_is_none(name: str, attack: Attack, refused: Refused) -> None:
    refused(attack("predict", "classification", "--model", name, "--text", "good"))
