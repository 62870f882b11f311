"""Download a file of a model from the hub with ``huggingface_hub``, which resumes after a broken connection.

``$D2LBERT_HUB`` names another hub, such as a mirror: a server that has the files at the hub's paths and answers HEAD.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from d2lbert.storage import download
from d2lbert.storage.download import DownloadError
from d2lbert.storage.files import sha256_of
from d2lbert.zoo.table import ModelEntry

DEFAULT_HUB = "https://huggingface.co"


def repository_address(entry: ModelEntry) -> str:
    """Return the address of a model's repository, at ``$D2LBERT_HUB`` if that is set."""
    return f"{os.environ.get('D2LBERT_HUB', DEFAULT_HUB).rstrip('/')}/{entry.repository}"


def download_from_hub(entry: ModelEntry, name: str, folder: Path, sha256: str) -> None:
    """Download a file of a model into a folder, where it appears whole or not at all.

    No token is sent, and ``huggingface_hub`` sends no telemetry.

    Args:
        entry: the model.
        name: of the file.
        folder: where to put it.
        sha256: the digest of its bytes, in hexadecimal; empty where it is not known.

    Raises:
        DownloadError: no network or no such file, a connection that failed, or a wrong size or sha256.
    """
    url = f"{repository_address(entry)}/resolve/{entry.revision}/{name}"
    download.attempt(url, folder, lambda server: _fetch(server, url, folder / name, sha256))


def _fetch(server: str, url: str, target: Path, sha256: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".download-", dir=target.parent) as folder:
        path = Path(folder) / target.name
        try:
            _receive(server, url, path)
        except DownloadError:
            raise
        except Exception as error:  # of requests, httpx or httpx2, depending on the library's version
            if isinstance(error, OSError) and error.errno:
                raise  # an error of the disk, not of the network
            raise _reason(server, url, error) from None
        if sha256 and sha256_of(path) != sha256:
            raise DownloadError(f"{server} sent a file whose sha256 is not the known one")
        path.replace(target)


def _receive(server: str, url: str, path: Path) -> None:
    """Request the size of a file, then its bytes."""
    from huggingface_hub import get_hf_file_metadata
    from huggingface_hub.file_download import http_get

    with _silenced():
        size = get_hf_file_metadata(url, token=False, timeout=download.READ_TIMEOUT).size
        with _GrowingFile(path, server, size) as file:
            http_get(url, file, displayed_filename=path.name)
    if size and path.stat().st_size != size:
        raise DownloadError(f"{server} sent {path.stat().st_size} of {size} bytes of {url}", transient=True)


def _reason(server: str, url: str, error: Exception) -> DownloadError:
    from huggingface_hub.utils import HfHubHTTPError, OfflineModeIsEnabled

    if isinstance(error, HfHubHTTPError):
        return download.refusal(server, error.response.status_code, url)
    if isinstance(error, OfflineModeIsEnabled):
        return DownloadError("HF_HUB_OFFLINE=1 forbids the network")
    name = type(error).__name__
    # A server that did not respond in time is not worth another wait.
    return DownloadError(f"the connection to {server} failed ({name})", transient="Timeout" not in name)


class _GrowingFile(io.BufferedWriter):
    """A file that only grows, up to the size that the server stated, so that every download ends.

    ``huggingface_hub`` would start over again and again with a server that breaks off and cannot resume.
    """

    def __init__(self, path: Path, server: str, size: int | None) -> None:
        super().__init__(io.FileIO(path, "w"))
        self._server, self._size = server, size

    def write(self, data: bytes) -> int:  # type: ignore[override]
        if self._size and self.tell() + len(data) > self._size:
            raise DownloadError(f"{self._server} sent more than the {self._size} bytes that it told of")
        return super().write(data)

    def truncate(self, size: int | None = None) -> int:
        raise DownloadError(f"the connection to {self._server} failed, and it cannot go on from there", transient=True)


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    """In this context ``huggingface_hub`` sends no telemetry and prints nothing about its attempts."""
    from huggingface_hub import constants

    logger = logging.getLogger("huggingface_hub")
    previous = constants.HF_HUB_DISABLE_TELEMETRY, logger.level
    constants.HF_HUB_DISABLE_TELEMETRY = True
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_TELEMETRY = previous[0]
        logger.setLevel(previous[1])
