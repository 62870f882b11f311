"""Addresses that no server can have are one line: those of a hub, of a file, and of a proxy."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from d2lbert import UserError, get_model
from d2lbert.storage import download
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
