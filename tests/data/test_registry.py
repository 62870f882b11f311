"""Look-up order, downloads from a server that misbehaves, the sample fall-back, and errors of one line."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from d2lbert import UserError, data
from d2lbert.data import SampleDataWarning, registry
from d2lbert.data.examples import Sentence
from d2lbert.storage import download

CONTENT = b"a fine film\t1\na bad film\t0\n" * 500
DEV = b"quite good\t1\n"
REAL = [Sentence("quite good", "positive")]
SAMPLE = [Sentence("only a sample", "negative")]


class Server:
    """A web server on this machine. ``script`` tells how to answer: one word a request, the last one for ever."""

    def __init__(self) -> None:
        self.script: list[str] = ["good"]
        self.requests: list[str] = []
        self.closing = threading.Event()
        self.files = {"/train.tsv": CONTENT, "/dev.tsv": DEV}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                behaviour = server.script.pop(0) if len(server.script) > 1 else server.script[0]
                self._answer(behaviour, server.files[self.path])

            def _answer(self, behaviour: str, body: bytes) -> None:
                if behaviour.isdecimal():
                    self.send_error(int(behaviour))
                    return
                if behaviour == "wrong byte":
                    body = b"X" + body[1:]
                if behaviour == "silent":
                    server.closing.wait(30)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                half = len(body) // 2
                self.wfile.write(body[:half])
                self.wfile.flush()
                if behaviour == "cut off":
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if behaviour == "slow":
                    time.sleep(0.3)
                if behaviour == "stuck":
                    server.closing.wait(30)
                self.wfile.write(body[half:])

            def log_message(self, *arguments: object) -> None:
                pass

            def handle(self) -> None:
                # The client has left, or we cut it off.
                with contextlib.suppress(OSError):
                    super().handle()

        return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


def entry(url: str, name: str, content: bytes) -> str:
    address = f"{url}/{name}" if url else ""
    digest = hashlib.sha256(content).hexdigest()
    return f'[[tiny.files]]\nname = "{name}"\nurl = "{address}"\nsha256 = "{digest}"\nsize = {len(content)}\n'


def make_home(folder: Path, url: str, sample: bool = True) -> None:
    """Write a manifest with the one data set ``tiny``, and its sample."""
    samples = 'samples = { train = ["train.tsv"], dev = ["dev.tsv"] }\n' if sample else ""
    head = (
        '[tiny]\nfolder = "tiny_files"\ntask = "none"\nlicence = "CC0"\ncitation = "key"\nsource = "https://example.org"\n'
        f'note = "Ask its makers."\nformat = "sst2"\nsplits = {{ train = ["train.tsv"], dev = ["dev.tsv"] }}\n{samples}'
    )
    (folder / "samples" / "tiny_files").mkdir(parents=True, exist_ok=True)
    for split in ("train", "dev"):
        (folder / "samples" / "tiny_files" / f"{split}.tsv").write_text("only a sample\t0\n")
    text = head + entry(url, "train.tsv", CONTENT) + entry(url, "dev.tsv", DEV)
    (folder / "manifest.toml").write_text(text)


def fill(folder: Path) -> Path:
    target = folder / "tiny_files"
    target.mkdir(parents=True)
    (target / "train.tsv").write_bytes(CONTENT)
    (target / "dev.tsv").write_bytes(DEV)
    return target


@pytest.fixture
def cache(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of our own, a manifest whose URLs lead to the server, and no mirror."""
    folder = tmp_path / "home"
    make_home(folder, server.url)
    monkeypatch.setattr(registry, "home", lambda: folder)
    monkeypatch.setattr("d2lbert.data.manifest.home", lambda: folder)
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("D2LBERT_DATA", raising=False)
    monkeypatch.delenv("D2LBERT_OFFLINE", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "PAUSE", 0.01)
    download.forget_failures()
    return tmp_path / "cache"


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def load_quietly(split: str = "dev") -> list[Sentence]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SampleDataWarning)
        return data.load("tiny", split)


def test_downloads_once_and_then_reads_from_the_cache(cache: Path, server: Server) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert data.load("tiny", "dev") == REAL
    assert data.fetch("tiny") == cache / "tiny_files"
    assert server.requests == ["/train.tsv", "/dev.tsv"]
    assert (cache / "tiny_files" / "train.tsv").read_bytes() == CONTENT
    assert files_in(cache) == ["dev.tsv", "train.tsv"]
    assert (data.is_sample("tiny"), data.opened()["tiny"]) == (False, "full")


def test_the_mirror_comes_before_the_cache_and_the_network(
    cache: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cache)
    mirror = fill(tmp_path / "mirror")
    monkeypatch.setenv("D2LBERT_DATA", str(tmp_path / "mirror"))
    assert data.fetch("tiny") == mirror
    assert data.describe()[0]["where"] == str(mirror)
    assert server.requests == []


def test_a_mirror_without_the_set_leads_on_to_the_cache(
    cache: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mirror").mkdir()
    monkeypatch.setenv("D2LBERT_DATA", str(tmp_path / "mirror"))
    filled = fill(cache)
    assert data.fetch("tiny") == filled
    assert server.requests == []


def test_a_damaged_file_in_the_mirror_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = fill(tmp_path / "mirror")
    damaged = bytearray(CONTENT)
    damaged[100] ^= 1
    (mirror / "train.tsv").write_bytes(damaged)
    monkeypatch.setenv("D2LBERT_DATA", str(tmp_path / "mirror"))
    # Not even the sample may hide this.
    with pytest.raises(UserError, match=r"train.tsv is damaged \(wrong sha256\)"):
        data.load("tiny", "dev")
    assert (mirror / "train.tsv").read_bytes() == damaged


def test_a_damaged_file_in_the_cache_is_fetched_again(cache: Path, server: Server) -> None:
    filled = fill(cache)
    damaged = bytearray(CONTENT)
    damaged[100] ^= 1
    (filled / "train.tsv").write_bytes(damaged)
    assert data.fetch("tiny") == filled
    assert (filled / "train.tsv").read_bytes() == CONTENT
    assert server.requests == ["/train.tsv"]


def test_a_file_that_is_damaged_after_it_was_verified_is_noticed(cache: Path, server: Server) -> None:
    data.fetch("tiny")
    path = data.fetch("tiny") / "train.tsv"
    time.sleep(0.01)
    path.write_bytes(b"X" + CONTENT[1:])
    data.fetch("tiny")
    assert path.read_bytes() == CONTENT


def test_a_damaged_file_in_the_cache_is_never_read_where_it_cannot_be_replaced(cache: Path, server: Server) -> None:
    (fill(cache) / "dev.tsv").write_bytes(DEV[:-1] + b" ")
    server.script = ["404"]
    assert load_quietly() == SAMPLE


@pytest.mark.parametrize("script", [["slow"], ["cut off", "good"], ["503", "good"], ["wrong byte", "good"]])
def test_a_server_that_recovers_is_asked_again(cache: Path, server: Server, script: list[str]) -> None:
    server.script = script
    assert data.load("tiny", "dev") == REAL
    assert files_in(cache) == ["dev.tsv", "train.tsv"]


@pytest.mark.parametrize(
    ("behaviour", "reason", "requests"),
    [
        ("404", "answered 404", 1),
        ("500", "answered 500", 3),
        ("cut off", "the connection to .* failed", 3),
        ("wrong byte", "sent a file whose sha256 is not the known one", 3),
        ("stuck", "the connection to .* failed", 3),
        ("silent", "the connection to .* failed", 3),
    ],
)
def test_a_server_that_stays_bad_gives_one_line_and_leaves_nothing(
    cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch, behaviour: str, reason: str, requests: int
) -> None:
    if behaviour in ("stuck", "silent"):  # the others answer, soon or, on a busy machine, a little later
        monkeypatch.setattr(download, "READ_TIMEOUT", 0.5)
    server.script = [behaviour]
    with pytest.raises(UserError, match=reason) as caught:
        data.fetch("tiny")
    message = str(caught.value)
    assert "\n" not in message
    for part in (f"{server.url}/train.tsv", str(cache / "tiny_files"), "0.01 MB"):
        assert part in message
    assert files_in(cache) == []
    assert len(server.requests) == requests
    # Asked once more, it is not tried once more.
    assert load_quietly() == SAMPLE
    assert len(server.requests) == requests


def test_a_download_that_fails_leaves_the_older_files_alone(cache: Path, server: Server) -> None:
    filled = fill(cache)
    (filled / "dev.tsv").unlink()
    server.script = ["cut off"]
    assert load_quietly() == SAMPLE
    assert files_in(cache) == ["train.tsv"]
    assert (filled / "train.tsv").read_bytes() == CONTENT


def test_the_sample_comes_with_a_warning_at_the_line_that_asked(cache: Path, server: Server) -> None:
    server.script = ["404"]
    with pytest.warns(SampleDataWarning) as caught:
        examples = data.load("tiny", "dev")
    assert examples == SAMPLE
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert text.startswith("tiny: a small SAMPLE written for this book")
    assert "answered 404" in text
    assert "d2lbert data fetch tiny" in text
    assert text.endswith("set D2LBERT_DATA to a folder that has tiny_files/")
    # The text may be printed on a page: it names no folder of this machine.
    assert str(cache) not in text
    assert (data.is_sample("tiny"), data.opened()["tiny"]) == (True, "sample")


def test_reading_as_a_stream_warns_before_the_first_example(cache: Path, server: Server) -> None:
    server.script = ["404"]
    with pytest.warns(SampleDataWarning) as caught:
        stream = data.read("tiny", "dev")
    assert caught[0].filename == __file__
    assert next(stream) == SAMPLE[0]
    assert list(stream) == []


def test_offline_asks_no_server(cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    assert load_quietly() == SAMPLE
    with pytest.raises(UserError, match="D2LBERT_OFFLINE=1 forbids the network"):
        data.fetch("tiny")
    assert server.requests == []


def test_without_a_network_the_server_is_tried_once_in_a_process(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(address: tuple[str, int], timeout: float) -> socket.socket:
        tried.append((address, timeout))
        raise OSError("no route to host")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for _ in range(3):
        assert load_quietly() == SAMPLE
    assert data.is_sample("tiny")
    assert len(tried) == 1
    assert tried[0][1] == download.CONNECT_TIMEOUT
    with pytest.raises(UserError, match=r"no network \(cannot reach 127.0.0.1:"):
        data.fetch("tiny")


def test_a_name_look_up_that_hangs_does_not_hang_us(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, finished = threading.Event(), threading.Event()
    monkeypatch.setattr(download, "CONNECT_TIMEOUT", 0.1)

    def hang(address: tuple[str, int], timeout: float) -> socket.socket:
        release.wait(5)
        finished.set()
        raise OSError("name not found")

    monkeypatch.setattr(socket, "create_connection", hang)
    try:
        with pytest.raises(UserError, match="no network"):
            data.fetch("tiny")
        assert not finished.is_set()
    finally:
        release.set()


def test_a_set_without_sample_raises_what_fetch_raises(cache: Path, server: Server, tmp_path: Path) -> None:
    make_home(tmp_path / "home", server.url, sample=False)
    server.script = ["404"]
    with pytest.raises(UserError, match="is not here and cannot be downloaded"):
        data.load("tiny", "dev")


def test_a_file_without_an_address_says_so(cache: Path, server: Server, tmp_path: Path) -> None:
    make_home(tmp_path / "home", "")
    with pytest.raises(UserError, match=r"it has no public address;.*info\('tiny'\).note") as caught:
        data.fetch("tiny")
    assert "\n" not in str(caught.value)
    with pytest.warns(SampleDataWarning) as warned:
        data.load("tiny", "dev")
    assert str(warned[0].message).endswith("one, set D2LBERT_DATA to a folder that has tiny_files/. Ask its makers.")


def test_a_cache_that_cannot_be_written_is_named_and_the_sample_is_used(
    cache: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"the cache .* cannot be written .*D2LBERT_CACHE") as caught:
        data.fetch("tiny")
    assert "\n" not in str(caught.value)
    assert load_quietly() == SAMPLE


def test_a_mirror_that_is_no_folder_is_named(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("D2LBERT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match=r"D2LBERT_DATA names .*nowhere, which is not a folder"):
        data.load("tiny", "dev")


def test_unknown_names_and_splits(cache: Path) -> None:
    with pytest.raises(UserError, match=r"unknown data set 'tinny': did you mean tiny"):
        data.load("tinny", "dev")
    with pytest.raises(UserError, match=r"unknown split of tiny 'test'"):
        data.load("tiny", "test")
    with pytest.raises(UserError, match="unknown data set"):
        data.info("nothing")


def test_describe_says_where_a_set_is(cache: Path, server: Server) -> None:
    (row,) = data.describe()
    assert row == {
        "name": "tiny",
        "task": "none",
        "size": len(CONTENT) + len(DEV),
        "licence": "CC0",
        "where": "network",
    }
    assert server.requests == []
    data.fetch("tiny")
    assert data.describe()[0]["where"] == str(cache / "tiny_files")
    shutil.rmtree(cache)
    assert data.describe()[0]["where"] == "network"


def test_progress_goes_to_standard_error(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.fetch("tiny")
    written = capsys.readouterr()
    assert written.out == ""
    assert re.search(r"train\.tsv: +100%", written.err)
