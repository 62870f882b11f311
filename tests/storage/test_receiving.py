"""Every download ends: by its size, by its speed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from d2lbert.storage import receiving
from d2lbert.storage.receiving import DownloadError, GrowingFile, watched


def test_a_file_grows_to_its_limit(tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "file", "server", limit=8) as file:
        assert file.write(b"12345") == 5
        file.write(b"678")
        assert file.received == 8
        with pytest.raises(DownloadError, match=r"^server sent more than 8 bytes, too many for this file$") as caught:
            file.write(b"9")
        assert not caught.value.transient
    assert (tmp_path / "file").read_bytes() == b"12345678"


def test_a_file_grows_to_the_size_that_the_server_told_of(tmp_path: Path) -> None:
    with (
        GrowingFile(tmp_path / "file", "server", limit=100, told=4) as file,
        pytest.raises(DownloadError, match=r"^server sent more than the 4 bytes that it told of$"),
    ):
        file.write(b"12345")


def test_a_file_never_shrinks(tmp_path: Path) -> None:
    with GrowingFile(tmp_path / "file", "server", limit=8) as file, pytest.raises(DownloadError, match=r"cannot go on"):
        file.truncate()


def test_a_trickle_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "GRACE", 0.1)
    monkeypatch.setattr(receiving, "_LOOK_EVERY", 0.02)
    release = threading.Event()
    try:
        with pytest.raises(DownloadError, match=r"^server sent only 3 bytes in 0 seconds$"):
            watched(lambda: release.wait(60) and None, lambda: 3, "server")
    finally:
        release.set()


def test_what_is_fast_enough_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "GRACE", 0.05)
    monkeypatch.setattr(receiving, "_LOOK_EVERY", 0.02)
    ended = threading.Event()
    watched(lambda: ended.set() if not ended.wait(0.3) else None, lambda: 10**9, "server")
    assert ended.is_set()


def test_an_error_is_that_of_the_download() -> None:
    def fail() -> None:
        raise KeyError("what the library raised")

    with pytest.raises(KeyError, match=r"what the library raised"):
        watched(fail, lambda: 0, "server")
