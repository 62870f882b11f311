"""Download one file, whole and verified, or say in one sentence why that failed.

A notebook without a network must not wait long: each process tries a server once, for a few seconds, and then remembers
that it cannot be reached. :func:`download` gets the files of data sets with pooch; :mod:`d2lbert.zoo.hub` gets those of
models with ``huggingface_hub``; both go through :func:`attempt`.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

# Seconds to look up and reach a server, seconds of silence after which it counts as stuck, how often to try, and
# seconds between two attempts.
CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 15.0
ATTEMPTS = 3
PAUSE = 1.0

# Server ("host:port") or URL -> why this process does not try it any more.
_given_up: dict[str, str] = {}


class DownloadError(Exception):
    """The file could not be downloaded. The message is a clause without a full stop.

    Fields:
        transient: whether another attempt may succeed.
    """

    def __init__(self, reason: str, transient: bool = False) -> None:
        super().__init__(reason)
        self.transient = transient


def forget_failures() -> None:
    """Forget which servers and files could not be reached, so that they are tried again once the network is back."""
    _given_up.clear()


def download(url: str, target: Path, sha256: str = "", size: int = 0) -> None:
    """Download a file to ``target``. The target appears only once it is complete and its sha256, if known, is right.

    Args:
        url: the address of the file.
        target: the path to write.
        sha256: the digest of its bytes, in hexadecimal; empty where it is not known.
        size: bytes, for the progress bar; 0 where it is not known.

    Raises:
        DownloadError: the server cannot be reached, has no such file, breaks off repeatedly, or sends another file.
    """
    attempt(url, target.parent, lambda server: _fetch(server, url, target, sha256, size))


def attempt(url: str, folder: Path, fetch: Callable[[str], None]) -> None:
    """Fetch a file, up to ``ATTEMPTS`` times where that may help. What this process has given up is not tried again.

    Args:
        url: the address of the file.
        folder: where the file will be; created if it does not exist.
        fetch: downloads the file; it gets the name of the server, for its messages, and raises :class:`DownloadError`.

    Raises:
        DownloadError: the network is forbidden, the server cannot be reached, ``fetch`` failed, or the folder cannot be
            written.
    """
    if os.environ.get("D2LBERT_OFFLINE") == "1":
        raise DownloadError("D2LBERT_OFFLINE=1 forbids the network")
    server = _reach(url)
    if url in _given_up:
        raise DownloadError(_given_up[url])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for trial in range(ATTEMPTS):
            try:
                return fetch(server)
            except DownloadError as error:
                if not error.transient or trial == ATTEMPTS - 1:
                    _given_up[url] = str(error)
                    raise
            time.sleep(PAUSE)
    except OSError as error:
        reason = error.strerror or error
        raise DownloadError(
            f"the cache {folder} cannot be written ({reason}), D2LBERT_CACHE may name another"
        ) from None


def refusal(server: str, status: int, url: str) -> DownloadError:
    """Return the error for a response without the file. Another attempt may help after status 5xx, never after 4xx."""
    return DownloadError(f"{server} answered {status} for {url}", transient=status >= 500)


def _fetch(server: str, url: str, target: Path, sha256: str, size: int) -> None:
    import pooch
    import requests
    from tqdm import tqdm

    pooch.get_logger().setLevel("ERROR")
    known_hash = f"sha256:{sha256}" if sha256 else None
    try:
        # pooch writes to a temporary name in the same folder, compares the digest, then renames. It tests the truth
        # value of the bar, which needs a total; the server tells pooch the right one.
        with tqdm(desc=target.name, total=max(1, size), unit="B", unit_scale=True, file=sys.stderr) as bar:
            timeout = (CONNECT_TIMEOUT, READ_TIMEOUT)
            downloader = pooch.HTTPDownloader(progressbar=bar, timeout=timeout, chunk_size=16384)
            pooch.retrieve(url, known_hash, target.name, target.parent, downloader=downloader)
    except requests.HTTPError as error:
        raise refusal(server, error.response.status_code if error.response is not None else 0, url) from None
    except requests.RequestException as error:
        raise DownloadError(f"the connection to {server} failed ({type(error).__name__})", transient=True) from None
    except ValueError:
        raise DownloadError(f"{server} sent a file whose sha256 is not the known one", transient=True) from None


def _reach(url: str) -> str:
    """Return ``host:port`` of the server, or of its proxy, once it has accepted a connection."""
    host, port = _server_of(url)
    server = f"{host}:{port}"
    if server in _given_up:
        raise DownloadError(_given_up[server])
    if not _accepts(host, port):
        _given_up[server] = f"no network (cannot reach {server})"
        raise DownloadError(_given_up[server])
    return server


def _server_of(url: str) -> tuple[str, int]:
    """Return host and port of the server, or of its proxy.

    Raises:
        DownloadError: the address of one of them is not valid.
    """
    from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy

    try:
        server = _host_and_port(url)
    except ValueError as error:
        advice = "D2LBERT_HUB, where it is set, must be like https://HOST or http://HOST:PORT"
        raise DownloadError(f"{url} is no valid address ({error}), {advice}") from None
    proxy = select_proxy(url, get_environ_proxies(url))
    if not proxy:
        return server
    try:
        return _host_and_port(prepend_scheme_if_needed(proxy, "http"))
    except ValueError:
        # The address of a proxy may hold a password, so neither the address nor the error is shown.
        names = "http_proxy, https_proxy or all_proxy"
        raise DownloadError(f"the proxy has no valid address, correct or unset {names}") from None


def _host_and_port(url: str) -> tuple[str, int]:
    """Return host and port of an address; raise ValueError if it has no host."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no host after http:// or https://")
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _accepts(host: str, port: int) -> bool:
    """Whether the server accepts a connection within the timeout.

    It runs in its own thread: a timeout of the connection does not stop the system's name look-up, which takes 10 s or
    more for each name server that does not respond.
    """
    accepted = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
            accepted.set()
        except (OSError, UnicodeError):  # UnicodeError: the name is not valid for a server
            pass

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_TIMEOUT)
    return accepted.is_set()
