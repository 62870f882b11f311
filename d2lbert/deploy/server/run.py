"""Run the server until it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import FrameType

import uvicorn

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.server.app import make_app
from d2lbert.deploy.server.connections import impatient_protocol
from d2lbert.deploy.server.core import Server
from d2lbert.deploy.server.models import Models


def run(sources: Mapping[str, str], settings: ServerSettings, host: str, port: int, multi_model: bool = False) -> None:
    """Load the models and serve them. SIGTERM or Ctrl-C stops: what has been accepted is answered first.

    Args:
        sources: name -> folder, or name in the zoo.
        settings: limits.
        host, port: where to listen.
        multi_model: whether models can be loaded and let go over HTTP, as SageMaker does in a container of many models.

    Raises:
        UserError: a model cannot be loaded.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    server = Server(Models(sources), settings)
    configuration = uvicorn.Config(
        make_app(server, multi_model),
        host=host,
        port=port,
        http=impatient_protocol(settings.reading_seconds),
        access_log=False,  # our own log has a line for each request
        log_config=None,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
        timeout_keep_alive=65,  # longer than a load balancer keeps an idle connection
    )
    _LingeringServer(configuration, server).run()


class _LingeringServer(uvicorn.Server):
    """On the first signal it says that it is not ready, goes on for a moment, and stops then; on the second, at once.

    A load balancer needs that moment to learn of it. Requests that it sends meanwhile would meet a closed port.
    """

    def __init__(self, configuration: uvicorn.Config, server: Server) -> None:
        super().__init__(configuration)
        self._server = server

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._server.draining or not self.started:
            super().handle_exit(sig, frame)
            return
        self._server.drain()
        timer = threading.Timer(self._server.settings.linger_seconds, super().handle_exit, (sig, frame))
        timer.daemon = True
        timer.start()
