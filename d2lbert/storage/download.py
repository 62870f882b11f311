"""Download one file, whole and verified, or say in one sentence why that failed.

A notebook without a network must not wait long: each process tries a server once, for a few seconds, and then remembers
that it cannot be reached. :func:`download` gets the files of data sets with pooch; :mod:`d2lbert.zoo.hub` gets those of
models with ``huggingface_hub``; both go through :func:`attempt`.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from d2lbert.storage.cache import UNFINISHED, locked
from d2lbert.storage.files import sha256_of
from d2lbert.storage.receiving import DownloadError, GrowingFile, watched

# As HTTP numbers them. The hub answers 401 for a repository that there is not, since it could be a private one.
NOT_PUBLIC = (401, 403, 404)
TOO_MANY_REQUESTS = 429

# Seconds to look up and reach a server, seconds of silence after which it counts as stuck, how often to try, seconds
# between two attempts, and the most of them where a server asks for more.
CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 15.0
ATTEMPTS = 3
PAUSE = 1.0
LONGEST_PAUSE = 30.0
MOST_BYTES = 4_000_000_000  # of a file whose size is not known

# Server ("host:port") or URL -> why this process does not try it any more.
_given_up: dict[str, DownloadError] = {}


def forget_failures() -> None:
    """Forget which servers and files could not be reached, so that they are tried again once the network is back."""
    _given_up.clear()


def download(
    url: str, target: Path, sha256: str = "", size: int = 0, convert: Callable[[Path], None] | None = None
) -> None:
    """Download a file to ``target``. The target appears only once it is complete and its sha256, if known, is right.

    If several processes call this, one downloads and the others wait for it.

    Args:
        url: the address of the file.
        target: the path to write.
        sha256: the digest of its bytes, in hexadecimal; empty where it is not known.
        size: its bytes, of which no more are taken; 0 where they are not known.
        convert: changes the file that came, which has not its name yet, before its sha256 is compared; it raises
            :class:`DownloadError` if it is not what it should be.

    Raises:
        DownloadError: the server cannot be reached, has no such file, breaks off repeatedly, sends another file or a
            larger one, or next to nothing for a minute.
    """
    with locked(target.parent):
        if not (sha256 and target.is_file() and sha256_of(target) == sha256):  # another process has been here
            attempt(url, target.parent, lambda server: _fetch(server, url, target, sha256, size, convert))


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
        raise _given_up[url]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for trial in range(ATTEMPTS):
            try:
                return fetch(server)
            except DownloadError as error:
                if not error.transient or trial == ATTEMPTS - 1:
                    _given_up[url] = error
                    raise
                pause = error.wait
            time.sleep(min(max(PAUSE, pause), LONGEST_PAUSE))
    except OSError as error:
        reason = error.strerror or error
        raise DownloadError(
            f"the cache {folder} cannot be written ({reason}), D2LBERT_CACHE may name another"
        ) from None


def refusal(server: str, status: int, url: str, wait: str = "") -> DownloadError:
    """Return the error for a response without the file. Another attempt may help after status 429 or 5xx.

    Args:
        wait: the header ``Retry-After`` of the response: seconds, or a date, which is not read.
    """
    transient = status == TOO_MANY_REQUESTS or status >= 500
    seconds = float(wait) if wait.isdecimal() and len(wait) < 10 else 0.0
    return DownloadError(f"{server} answered {status} for {shown(url)}", transient, seconds, status in NOT_PUBLIC)


def shown(url: str) -> str:
    """Return an address for messages: without the name and the password that may stand in it."""
    return re.sub(r"//.*@", "//", url)


def _fetch(server: str, url: str, target: Path, sha256: str, size: int, convert: Callable[[Path], None] | None) -> None:
    import pooch
    import requests
    from tqdm import tqdm

    pooch.get_logger().setLevel("ERROR")
    try:
        # pooch tests the truth value of the bar, which needs a total; the server tells it the right one.
        with (
            tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=target.parent) as folder,
            GrowingFile(Path(folder) / "received", server, size or MOST_BYTES) as file,
            tqdm(desc=target.name, total=max(1, size), unit="B", unit_scale=True, file=sys.stderr) as bar,
        ):
            timeout = (CONNECT_TIMEOUT, READ_TIMEOUT)
            downloader = pooch.HTTPDownloader(progressbar=bar, timeout=timeout, chunk_size=16384)
            watched(lambda: downloader(url, file, None), lambda: file.received, server)
            file.close()
            if convert is not None:
                convert(Path(file.name))
            if sha256 and sha256_of(Path(file.name)) != sha256:
                raise DownloadError(f"{server} sent a file whose sha256 is not the known one", transient=True)
            Path(file.name).replace(target)
    except requests.HTTPError as error:
        if error.response is None:
            raise refusal(server, 0, url) from None
        raise refusal(server, error.response.status_code, url, error.response.headers.get("Retry-After", "")) from None
    except requests.RequestException as error:
        raise DownloadError(f"the connection to {server} failed ({type(error).__name__})", transient=True) from None


def _reach(url: str) -> str:
    """Return ``host:port`` of the server, or of its proxy, once it has accepted a connection."""
    host, port = _server_of(url)
    server = f"{host}:{port}"
    if server in _given_up:
        raise _given_up[server]
    if not _accepts(host, port):
        _given_up[server] = DownloadError(f"no network (cannot reach {server})")
        raise _given_up[server]
    return server


def _server_of(url: str) -> tuple[str, int]:
    """Return host and port of the server, or of its proxy.

    Raises:
        DownloadError: the address of one of them is not valid.
    """
    from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy

    try:
        server = _host_and_port(url)
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{urlsplit(url).scheme} is neither http nor https")
    except ValueError as error:
        advice = "D2LBERT_HUB, where it is set, must be like https://HOST or http://HOST:PORT"
        reason = "" if "@" in url else f" ({error})"  # it may quote a part of the password
        raise DownloadError(f"{shown(url)} is no valid address{reason}, {advice}") from None
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
