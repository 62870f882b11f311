"""The program ``serve`` of a container: the server of :mod:`d2lbert.deploy.server`, with what SageMaker says of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from d2lbert.config.serving import ServerSettings
from d2lbert.deploy.sagemaker.contract import places
from d2lbert.errors import UserError, shortened
from d2lbert.weights.adapters import is_adapter_folder
from d2lbert.weights.folder import CONFIG_FILE

_PORT = 8080
_ONLY = "model"  # the name of a model that is served alone
_MISTAKE = 2
# A request of a batch transform job may take 600 s and carry 100 MB, one of an endpoint 60 s and 6 MiB.
_BATCH_SECONDS = 590.0
_BATCH_MEGABYTES = 6
_DIGITS = 9  # of a number that makes sense


def main() -> None:
    """Serve the models of the container until SIGTERM, and exit; a mistake is one line and status 2."""
    try:
        run_server(os.environ)
    except UserError as error:
        print(f"d2lbert: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(_MISTAKE)


def run_server(environment: Mapping[str, str]) -> None:
    """Serve what lies in the folder of the model, or, in a container of many models, what is asked for.

    Raises:
        UserError: there is no model, or it cannot be served, or a variable is not what it should be.
    """
    multi_model = _is_true(environment, "SAGEMAKER_MULTI_MODEL")
    sources = {} if multi_model else served_models(places(environment).model)
    settings, port = server_settings(environment), _number(environment, "SAGEMAKER_BIND_TO_PORT", _PORT)
    from d2lbert.deploy.server.run import run

    run(sources, settings, "0.0.0.0", port, multi_model)


def served_models(folder: Path) -> dict[str, str]:
    """Return name -> folder of the models in a folder: it is one itself, or its folders are, adapters for instance.

    Raises:
        UserError: there is none.
    """
    if _is_model(folder):
        return {_ONLY: str(folder)}
    found = {path.name: str(path) for path in sorted(folder.glob("*")) if _is_model(path)}
    if not found:
        raise UserError(f"{folder} holds no model: give ModelDataUrl an archive with config.json at its top")
    return found


def server_settings(environment: Mapping[str, str]) -> ServerSettings:
    """Return the limits of an endpoint, or those of a batch transform job, which says so in variables.

    Raises:
        UserError: a variable is no number.
    """
    if not _is_true(environment, "SAGEMAKER_BATCH"):
        return ServerSettings()
    size = _number(environment, "SAGEMAKER_MAX_PAYLOAD_IN_MB", _BATCH_MEGABYTES) * 2**20
    requests = _number(environment, "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", 1)
    limits = {"body_bytes": size, "waiting_bytes": size * requests, "queue_tokens": max(65_536, size * requests)}
    return ServerSettings(**limits, texts_per_request=1_000_000, deadline_seconds=_BATCH_SECONDS)


def _is_model(folder: Path) -> bool:
    return (folder / CONFIG_FILE).is_file() or is_adapter_folder(folder)


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() == "true"


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    """Return a variable as a number; the default where it is missing, empty, or 0, which leaves the choice to us.

    Raises:
        UserError: it is no number.
    """
    text = environment.get(name) or str(default)
    # Python refuses to read thousands of digits as a number.
    if not text.isdecimal() or len(text) > _DIGITS:
        raise UserError(f"{name} is {shortened(text)!r}: give a number, or 0 for the default, {default:,}")
    return int(text) or default
