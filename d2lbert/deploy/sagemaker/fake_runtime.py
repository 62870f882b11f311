"""SageMaker's address for requests, on this machine: it hands them to a container's server as the service would.

It keeps the limits of the service: 6 MiB a request and an answer, 60 s between them, and no header of the client but
those that the service passes on. So what works here does not fail there over one of them. It checks no signature.

In front of a container of many models it does what the service does for the header ``X-Amzn-SageMaker-Target-Model``
(boto3's ``TargetModel``): it unpacks the archive of that name at its first request, has the container load it, and
hands the request to ``/models/NAME/invoke``. Source: Amazon SageMaker Developer Guide, "Custom Containers Contract for
Multi-Model Endpoints".
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import re
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MOST_BYTES = 6_291_456
MOST_SECONDS = 60.0
_TARGET = "X-Amzn-SageMaker-Target-Model"
# All that a container gets to see of a client's headers.
PASSED_ON = (
    "Content-Type",
    "Accept",
    "X-Amzn-SageMaker-Custom-Attributes",
    _TARGET,
    "X-Amzn-SageMaker-Target-Variant",
    "X-Amzn-SageMaker-Inference-Id",
    "X-Amzn-SageMaker-Session-Id",
)
_PATH = re.compile(r"/endpoints/([^/]+)/invocations")
_VARIANT = "AllTraffic"
_LOADED_ALREADY = 409
_CHUNK = 65_536


class _NoAnswerError(Exception):
    """The container is too slow, not there, or gone in the middle of its answer."""


class _NoModelError(Exception):
    """There is no archive of that name, or it is damaged."""


class _Server(ThreadingHTTPServer):
    """The service, in front of one container.

    Attributes:
        container: its host and its port.
        seconds: that it may take for an answer.
        models: the folder of archives that stands for the bucket of a container of many models; None for one of one.
        unpacked: where archives are unpacked.
    """

    daemon_threads = True
    container: tuple[str, int]
    seconds: float
    models: Path | None
    unpacked: Path

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._loading = threading.Lock()

    def ask(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, str]:
        """Return the container's status, its answer, and the type of that.

        Raises:
            _NoAnswerError: none came.
        """
        connection = http.client.HTTPConnection(*self.container, timeout=self.seconds)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get("Content-Type", "")
        except (OSError, http.client.HTTPException):
            raise _NoAnswerError from None
        finally:
            connection.close()

    def load(self, target: str) -> tuple[str, int, bytes]:
        """Have the container load the model of an archive, unless it has.

        Returns:
            The name by which the container knows it, which is not the archive's; and its status and answer.

        Raises:
            _NoModelError: there is no such archive, or it is damaged.
            _NoAnswerError: no answer came.
        """
        archive = self._archive(target)
        name = hashlib.sha256(target.encode()).hexdigest()[:32]
        with self._loading:
            folder = self.unpacked / name / "model"
            if not folder.exists():
                _unpack(archive, folder)
            asked = json.dumps({"model_name": name, "url": str(folder)}).encode()
            status, content, _ = self.ask("/models", asked, {"Content-Type": "application/json"})
        return name, status, content

    def _archive(self, target: str) -> Path:
        if self.models is None:
            raise _NoModelError("a target model was named, but this endpoint holds one model")
        if not target:
            raise _NoModelError("this endpoint holds many models: name one as the target model")
        path = (self.models / target).resolve()
        if not path.is_relative_to(self.models.resolve()) or not path.is_file():
            raise _NoModelError(f"there is no archive {target}")
        return path


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a new folder, which is there whole or not at all."""
    part = folder.with_name("part")
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        shutil.rmtree(part, ignore_errors=True)
        raise _NoModelError(f"the archive {archive.name} cannot be unpacked: {error}") from None
    part.rename(folder)


class _Handler(BaseHTTPRequestHandler):
    """One request of a client, ``InvokeEndpoint``."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MOST_BYTES:
            for start in range(0, length, _CHUNK):  # a client that is cut off while it sends sees no status
                self.rfile.read(min(_CHUNK, length - start))
            return self._answer(413, {"message": f"HTTP content length exceeded {MOST_BYTES} bytes."})
        body = self.rfile.read(length)
        if not _PATH.fullmatch(self.path):
            return self._answer(400, {"Message": f"no such operation: {self.path}"}, "ValidationError")
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        try:
            path = "/invocations"
            if self.server.models is not None or _TARGET in headers:
                name, status, content = self.server.load(headers.get(_TARGET, ""))
                if status not in (200, _LOADED_ALREADY):
                    return self._model_error(status, content.decode("utf-8", "replace"))
                path = f"/models/{name}/invoke"
            status, content, kind = self.server.ask(path, body, headers)
        except _NoModelError as error:
            return self._answer(400, {"Message": str(error)}, "ValidationError")
        except _NoAnswerError:
            return self._model_error(0, "Your invocation timed out while waiting for a response from container primary")
        if status // 100 != 2:
            return self._model_error(status, content.decode("utf-8", "replace"))
        if len(content) > MOST_BYTES:
            return self._model_error(status, f"the answer has {len(content)} bytes, more than {MOST_BYTES}")
        self._send(200, content, {"Content-Type": kind, "x-Amzn-Invoked-Production-Variant": _VARIANT})

    def _model_error(self, status: int, message: str) -> None:
        """Answer 424, which is what a client gets of every refusal of a container."""
        side = "client" if status // 100 == 4 else "server"
        told = f'Received {side} error ({status}) from primary with message "{message.strip()}"'
        self._answer(424, {"Message": told, "OriginalMessage": message, "OriginalStatusCode": status}, "ModelError")

    def _answer(self, status: int, content: dict[str, object], kind: str = "") -> None:
        headers = {"Content-Type": "application/json"} | ({"x-amzn-ErrorType": kind} if kind else {})
        self._send(status, json.dumps(content).encode(), headers)

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: the container has a log."""


@contextlib.contextmanager
def fake_runtime(port: int, seconds: float = MOST_SECONDS, models: Path | None = None) -> Iterator[str]:
    """Run in this context, and yield, the address that stands for ``https://runtime.sagemaker.<region>.amazonaws.com``.

    boto3 takes it as ``endpoint_url`` of the client ``sagemaker-runtime``, or from the variable
    ``AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME``.

    Args:
        port: of the container's server on this machine.
        seconds: that it may take for an answer.
        models: of a container of many models, a folder of archives (``.tar.gz``) that stands for its bucket.
    """
    with tempfile.TemporaryDirectory() as unpacked:
        server = _Server()
        server.container, server.seconds = ("127.0.0.1", port), seconds
        server.models, server.unpacked = models, Path(unpacked)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
