"""The command ``d2lbert serve``."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from d2lbert.commands.options import options_from_settings
from d2lbert.commands.sources import named_sources
from d2lbert.config.serving import ServerSettings
from d2lbert.errors import UserError, require


@options_from_settings({})
def serve(
    model: Annotated[
        list[str],
        typer.Option(
            "--model",
            help="a fine-tuned model's folder or name, or NAME=FOLDER; several may be given, adapters share an encoder",
        ),
    ],
    settings: ServerSettings,
    host: Annotated[str, typer.Option("--host", help="where to listen; 0.0.0.0 for other machines")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="where to listen", min=1, max=65_535)] = 8080,
) -> None:
    """Serve fine-tuned models over HTTP: SageMaker's addresses, the Open Inference Protocol, and a page to try them.

    POST {"text": "...", "model": "..."} to /invocations. GET /ping says whether requests would be answered.
    """
    sources = named_sources(model)
    require("the server", "serve", "fastapi", "uvicorn", "prometheus_client")
    _check_free(host, port)
    from d2lbert.deploy.server.run import run

    run(sources, settings, host, port)


def _check_free(host: str, port: int) -> None:
    """Refuse an address that is taken before the models are loaded.

    Raises:
        UserError: nobody can listen there.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"nothing can listen at {host}:{port} ({reason}): choose another --port or --host") from None
