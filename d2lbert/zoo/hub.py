"""Download a file of a model from the hub with ``huggingface_hub``, which resumes after a broken connection.

``$D2LBERT_HUB`` names another hub, such as a mirror: a server that has the files at the hub's paths and answers HEAD.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage import download
from d2lbert.storage.cache import UNFINISHED
from d2lbert.storage.download import shown
from d2lbert.storage.files import sha256_of
from d2lbert.storage.places import cache_folder
from d2lbert.storage.receiving import DownloadError, GrowingFile, watched
from d2lbert.zoo.table import ModelEntry

DEFAULT_HUB = "https://huggingface.co"
_CHUNK = 1 << 16  # bytes; with the library's ten million a slow download would seem to stand still


def repository_address(repository: str) -> str:
    """Return the address of a model's repository, at ``$D2LBERT_HUB`` if that is set."""
    return f"{os.environ.get('D2LBERT_HUB', DEFAULT_HUB).rstrip('/')}/{repository}"


def shown_address(repository: str) -> str:
    """Return the address of a model's repository for messages: without a password."""
    return shown(repository_address(repository))


def download_from_hub(
    entry: ModelEntry, name: str, folder: Path, sha256: str, check: Callable[[Path], None] | None = None
) -> None:
    """Download a file of a model into a folder, where it appears whole or not at all.

    No token is sent, and ``huggingface_hub`` sends no telemetry.

    Args:
        entry: the model.
        name: of the file.
        folder: where to put it.
        sha256: the digest of its bytes, in hexadecimal; empty where it is not known.
        check: reads the file that came, before it is taken, and raises :class:`UserError` if it is not what it should
            be.

    Raises:
        DownloadError: no network or no such file, a connection that failed or is too slow, a wrong size or sha256, or
            a file that ``check`` refuses.
    """
    url = f"{repository_address(entry.repository)}/resolve/{entry.revision}/{name}"

    def fetch(server: str) -> None:
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=folder) as temporary:
            path = Path(temporary) / name
            with _errors_in_words(server, url):
                _receive(server, url, path, entry.most_bytes(name))
            if sha256 and sha256_of(path) != sha256:
                raise DownloadError(f"{server} sent a file whose sha256 is not the known one")
            if check is not None:
                _check(check, path, server)
            path.replace(folder / name)

    download.attempt(url, folder, fetch)


def newest_revision(repository: str) -> str:
    """Return the commit of the newest state of a repository, from the headers of its ``config.json``.

    Raises:
        DownloadError: no network, no such repository, or a server that names no commit.
    """
    url = f"{repository_address(repository)}/resolve/main/config.json"
    found: list[str] = []

    def fetch(server: str) -> None:
        with _errors_in_words(server, url), _silenced():
            commit = _metadata(server, url).commit_hash
        if not re.fullmatch("[0-9a-f]{40}", commit or ""):
            raise DownloadError(f"{server} names no commit for {shown(url)}")
        found.append(str(commit))

    download.attempt(url, cache_folder(), fetch)
    return found[0]


def _check(check: Callable[[Path], None], path: Path, server: str) -> None:
    """Read a file that came; what was sent in its place (a page, half of it, another model) is refused."""
    try:
        check(path)
    except UserError as error:
        reason = str(error).replace(str(path), path.name).replace(str(path.parent), "the file")
        raise DownloadError(f"{server} sent something else in its place ({reason})") from None


@contextlib.contextmanager
def _errors_in_words(server: str, url: str) -> Iterator[None]:
    """In this context an error of the network becomes a :class:`DownloadError`."""
    try:
        yield
    except DownloadError:
        raise
    except Exception as error:  # of requests, httpx or httpx2, depending on the library's version
        if isinstance(error, OSError) and error.errno:
            raise  # an error of the disk, not of the network
        raise _reason(server, url, error) from None


def _metadata(server: str, url: str) -> Any:
    """Return what the headers of a file say: its size, and the commit."""
    from huggingface_hub import get_hf_file_metadata

    found: list[Any] = []

    def ask() -> None:
        found.append(get_hf_file_metadata(url, token=False, timeout=download.READ_TIMEOUT))

    watched(ask, lambda: 0, server)
    return found[0]


def _receive(server: str, url: str, path: Path, limit: int) -> None:
    """Request the size of a file, then its bytes."""
    from huggingface_hub.file_download import http_get

    with _silenced():
        size = _metadata(server, url).size or 0
        with GrowingFile(path, server, limit, size) as file:
            watched(lambda: http_get(url, file, displayed_filename=path.name), lambda: file.received, server)
    if size and path.stat().st_size != size:
        sent = path.stat().st_size
        raise DownloadError(f"{server} sent {sent} of {size} bytes of {shown(url)}", transient=True)


def _reason(server: str, url: str, error: Exception) -> DownloadError:
    from huggingface_hub.utils import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        response = error.response
        return download.refusal(server, response.status_code, url, response.headers.get("Retry-After", ""))
    if isinstance(error, OfflineModeIsEnabled):
        return DownloadError("HF_HUB_OFFLINE=1 forbids the network")
    name = type(error).__name__
    # A server that did not respond in time is not worth another wait.
    return DownloadError(f"the connection to {server} failed ({name})", transient="Timeout" not in name)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """In this context ``huggingface_hub`` sends no telemetry, prints nothing about its attempts, and writes often."""
    from huggingface_hub import constants

    logger = logging.getLogger("huggingface_hub")
    previous = constants.HF_HUB_DISABLE_TELEMETRY, constants.DOWNLOAD_CHUNK_SIZE, logger.level
    constants.HF_HUB_DISABLE_TELEMETRY = True
    constants.DOWNLOAD_CHUNK_SIZE = min(constants.DOWNLOAD_CHUNK_SIZE, _CHUNK)
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY, constants.DOWNLOAD_CHUNK_SIZE = previous[:2]
        logger.setLevel(previous[2])
