"""SageMaker's address for requests, on this machine: it hands them to a container's server as the service would.

It keeps the limits of the service: 6 MiB a request and an answer, 60 s between them, and no header of the client but
those that the service passes on. So what works here does not fail there over one of them. It checks no signature.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_BYTES = 6_291_456
MOST_SECONDS = 60.0
# All that a container gets to see of a client's headers.
PASSED_ON = (
    "Content-Type",
    "Accept",
    "X-Amzn-SageMaker-Custom-Attributes",
    "X-Amzn-SageMaker-Target-Model",
    "X-Amzn-SageMaker-Target-Variant",
    "X-Amzn-SageMaker-Inference-Id",
    "X-Amzn-SageMaker-Session-Id",
)
_PATH = re.compile(r"/endpoints/([^/]+)/invocations")
_VARIANT = "AllTraffic"
_CHUNK = 65_536


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    container: tuple[str, int]
    seconds: float


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
        connection = http.client.HTTPConnection(*self.server.container, timeout=self.server.seconds)
        try:
            connection.request("POST", "/invocations", body, headers)
            answer = connection.getresponse()
            status, content, kind = answer.status, answer.read(), answer.headers.get("Content-Type", "")
        except (OSError, http.client.HTTPException):  # too slow, not there, or gone in the middle of its answer
            return self._model_error(0, "Your invocation timed out while waiting for a response from container primary")
        finally:
            connection.close()
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
def fake_runtime(port: int, seconds: float = MOST_SECONDS) -> Iterator[str]:
    """Run in this context, and yield, the address that stands for ``https://runtime.sagemaker.<region>.amazonaws.com``.

    boto3 takes it as ``endpoint_url`` of the client ``sagemaker-runtime``, or from the variable
    ``AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME``.

    Args:
        port: of the container's server on this machine.
        seconds: that it may take for an answer.
    """
    server = _Server(("127.0.0.1", 0), _Handler)
    server.container, server.seconds = ("127.0.0.1", port), seconds
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
