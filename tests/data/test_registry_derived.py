"""The registry fetches files that are made from originals: from a server on this machine, and never a wrong one."""

from __future__ import annotations

import functools
import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from d2lbert import UserError, data
from d2lbert.data import SampleDataWarning, registry
from d2lbert.data.examples import Sentence
from d2lbert.storage import download

FIRST = b"quite good\t1\n"
WHOLE = FIRST + b"held back\t0\n"
PACKED = gzip.compress(FIRST, 9, mtime=0)
HEAD = """[tiny]
folder = "tiny"
task = "none"
licence = "CC0"
citation = "key"
source = "https://example.org"
note = "Derived."
format = "sst2"
splits = {{ train = ["train.tsv"] }}
samples = {{ train = ["train.tsv"] }}

[[tiny.files]]
name = "train.tsv"
url = "{url}/original.tsv"
sha256 = "{sha256}"
size = {size}
derived = {derived}
"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """The folder that a server publishes, and its address; an empty cache and a home of our own."""
    home, served = tmp_path / "home", tmp_path / "served"
    (home / "samples" / "tiny").mkdir(parents=True)
    (home / "samples" / "tiny" / "train.tsv").write_text("only a sample\t0\n")
    served.mkdir()
    monkeypatch.setattr(registry, "home", lambda: home)
    monkeypatch.setattr("d2lbert.data.manifest.home", lambda: home)
    monkeypatch.setenv("D2LBERT_CACHE", str(tmp_path / "cache"))
    for name in ("D2LBERT_DATA", "D2LBERT_OFFLINE", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    download.forget_failures()
    http = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(served)))
    threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield served, f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    http.server_close()
    download.forget_failures()


def describe(home: Path, url: str, content: bytes, derived: str) -> None:
    text = HEAD.format(url=url, sha256=hashlib.sha256(content).hexdigest(), size=len(content), derived=derived)
    (home / "manifest.toml").write_text(text)


def test_the_file_is_made_and_the_original_goes(upstream: tuple[Path, str], tmp_path: Path) -> None:
    served, url = upstream
    describe(tmp_path / "home", url, FIRST, f'{{ by = "beginning", size = {len(FIRST)} }}')
    (served / "original.tsv").write_bytes(WHOLE)
    assert data.describe()[0]["where"] == "network"
    assert data.load("tiny", "train") == [Sentence("quite good", "positive")]
    assert not data.is_sample("tiny")
    folder = tmp_path / "cache" / "tiny"
    assert [path.name for path in folder.iterdir()] == ["train.tsv"]
    assert (folder / "train.tsv").read_bytes() == FIRST


def test_another_original_is_refused_in_one_line(upstream: tuple[Path, str], tmp_path: Path) -> None:
    served, url = upstream
    describe(tmp_path / "home", url, FIRST, f'{{ by = "beginning", size = {len(FIRST)} }}')
    (served / "original.tsv").write_bytes(b"X" + WHOLE[1:])
    with pytest.raises(UserError, match=r"what was made from .*original\.tsv has not the known sha256") as caught:
        data.fetch("tiny")
    assert "\n" not in str(caught.value)
    assert not any((tmp_path / "cache" / "tiny").iterdir())
    with pytest.warns(SampleDataWarning):
        assert data.load("tiny", "train") == [Sentence("only a sample", "negative")]
    (served / "original.tsv").write_bytes(WHOLE)  # what this process has given up is not tried again
    with pytest.raises(UserError, match="has not the known sha256"):
        data.fetch("tiny")


def test_a_page_in_place_of_the_archive_is_refused(upstream: tuple[Path, str], tmp_path: Path) -> None:
    served, url = upstream
    describe(tmp_path / "home", url, FIRST, '{ by = "member", name = "rte/dev" }')
    (served / "original.tsv").write_bytes(b"<html>")
    with pytest.raises(UserError, match=r"train\.tsv cannot be made from .*: it is damaged or another file"):
        data.fetch("tiny")


def test_content_settles_where_gzip_packs_otherwise(
    upstream: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, url = upstream
    content = hashlib.sha256(FIRST).hexdigest()
    describe(tmp_path / "home", url, PACKED, f'{{ by = "packed" }}\nunpacked_sha256 = "{content}"')
    (served / "original.tsv").write_bytes(FIRST)
    otherwise, another = gzip.compress(FIRST, 1, mtime=5), gzip.compress(WHOLE)
    monkeypatch.setattr(gzip, "compress", lambda *arguments, **options: otherwise)
    folder = data.fetch("tiny")
    assert (folder / "train.tsv").read_bytes() == otherwise != PACKED
    (served / "original.tsv").unlink()
    assert data.fetch("tiny") == folder  # nothing is fetched again
    (folder / "train.tsv").write_bytes(another)
    with pytest.raises(UserError, match="answered 404"):
        data.fetch("tiny")
