"""Get one file over the network, whole and verified, or say in one sentence why not.

Without a network this must not make a notebook wait: a server is tried once in a process, for a few seconds, and
then remembered as out of reach. :func:`download` gets the files of data sets, by pooch; :mod:`d2lbert.zoo.hub` those of
models, by ``huggingface_hub``; :func:`attempt` is what they share.
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

# Seconds to look up and reach a server, seconds of silence after which it counts as stuck, and how often to try.
CONNECT_TIMEOUT = 3.0
READ_TIMEOUT = 15.0
ATTEMPTS = 3
PAUSE = 1.0

# Why a server ("host:port") or a URL was given up in this process.
_given_up: dict[str, str] = {}


class DownloadError(Exception):
    """The file could not be had. The message is a clause without a full stop.

    Fields:
        transient: whether it may be there when asked for once more.
    """

    def __init__(self, reason: str, transient: bool = False) -> None:
        super().__init__(reason)
        self.transient = transient


def forget_failures() -> None:
    """Try again what was given up: for a process that outlives a broken network."""
    _given_up.clear()


def download(url: str, target: Path, sha256: str = "", size: int = 0) -> None:
    """Download a file to ``target``. It has its name only once it is complete and its sha256, if known, is right.

    Args:
        sha256: the digest of its bytes, in hexadecimal; empty where it is not known.
        size: bytes, for the bar; 0 where it is not known.

    Raises:
        DownloadError: no server, no such file, a connection that broke off again and again, or a wrong sha256.
    """
    attempt(url, target.parent, lambda server: _fetch(server, url, target, sha256, size))


def attempt(url: str, folder: Path, fetch: Callable[[str], None]) -> None:
    """Fetch a file, again where that may help; what was given up once in this process is not tried once more.

    Args:
        folder: where the file will be; made if need be.
        fetch: gets the name of the server, for its messages, and raises :class:`DownloadError`.

    Raises:
        DownloadError: the network is forbidden or the server out of reach, ``fetch`` failed, or the folder cannot be
            written.
    """
    if os.environ.get("D2LBERT_OFFLINE") == "1":
        raise DownloadError("D2LBERT_OFFLINE=1 forbids the network")
    server = _reach(url)
    if url in _given_up:
        raise DownloadError(_given_up[url])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(ATTEMPTS):
            try:
                return fetch(server)
            except DownloadError as error:
                if not error.transient or number == ATTEMPTS - 1:
                    _given_up[url] = str(error)
                    raise
            time.sleep(PAUSE)
    except OSError as error:
        reason = error.strerror or error
        raise DownloadError(
            f"the cache {folder} cannot be written ({reason}), D2LBERT_CACHE may name another"
        ) from None


def refusal(server: str, status: int, url: str) -> DownloadError:
    """Return the error for an answer other than the file. 4xx will not get better by asking again; 5xx may."""
    return DownloadError(f"{server} answered {status} for {url}", transient=status >= 500)


def _fetch(server: str, url: str, target: Path, sha256: str, size: int) -> None:
    import pooch
    import requests
    from tqdm import tqdm

    pooch.get_logger().setLevel("ERROR")
    known_hash = f"sha256:{sha256}" if sha256 else None
    try:
        # pooch writes to a temporary name in the same folder, compares the digest, then renames. It asks whether there
        # is a bar, and one whose total is not known cannot say; the server tells pooch the right one.
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
    """Return ``host:port`` of the server (or of the proxy before it) once it has accepted a connection."""
    host, port = _server_of(url)
    server = f"{host}:{port}"
    if server in _given_up:
        raise DownloadError(_given_up[server])
    if not _accepts(host, port):
        _given_up[server] = f"no network (cannot reach {server})"
        raise DownloadError(_given_up[server])
    return server


def _server_of(url: str) -> tuple[str, int]:
    """Return host and port of the server, or of the proxy before it.

    Raises:
        DownloadError: the address of one of them is not valid.
    """
    from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy

    try:
        server = _host_and_port(url)
    except ValueError as error:
        wanted = "D2LBERT_HUB, where it is set, must be like https://HOST or http://HOST:PORT"
        raise DownloadError(f"{url} is no valid address ({error}), {wanted}") from None
    proxy = select_proxy(url, get_environ_proxies(url))
    if not proxy:
        return server
    try:
        return _host_and_port(prepend_scheme_if_needed(proxy, "http"))
    except ValueError:
        # The address of a proxy may hold a password, so neither it nor the fault in it is shown.
        names = "http_proxy, https_proxy or all_proxy"
        raise DownloadError(f"the proxy has no valid address, correct or unset {names}") from None


def _host_and_port(url: str) -> tuple[str, int]:
    """Return host and port of an address; raise ValueError where it has none."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no host after http:// or https://")
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _accepts(host: str, port: int) -> bool:
    """Whether the server takes a connection within the timeout.

    In a thread of its own: a timeout of the connection does not end the system's name look-up, which takes 10 s and
    more for each name server that is silent.
    """
    accepted = threading.Event()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
            accepted.set()
        except (OSError, UnicodeError):  # the second where no name of a server can be like this one
            pass

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(CONNECT_TIMEOUT)
    return accepted.is_set()
