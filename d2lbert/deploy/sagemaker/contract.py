"""What SageMaker and a container agree on: where files lie under one root folder, and what the files of a job say.

SageMaker itself writes the files. The variables ``SM_*`` are made by its training toolkit, not by the platform, so here
they only override what the files say. Source: Amazon SageMaker Developer Guide, "How Amazon SageMaker Provides Training
Information".
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.files import read_json, write_text

ROOT = "SAGEMAKER_BASE_DIR"
_DEFAULT_ROOT = "/opt/ml"
# SageMaker reads no more of the file in which a job says why it failed.
FAILURE_CHARACTERS = 1024


@dataclass(frozen=True)
class Places:
    """Where things lie.

    Fields:
        root: of all of them; ``/opt/ml`` in a container.
    """

    root: Path

    @property
    def config(self) -> Path:
        """The folder of the files that describe the job."""
        return self.root / "input" / "config"

    @property
    def data(self) -> Path:
        """The folder of the channels."""
        return self.root / "input" / "data"

    @property
    def model(self) -> Path:
        """Where training writes the model, and where serving finds it."""
        return self.root / "model"

    @property
    def output_data(self) -> Path:
        """Where training writes what is no part of the model."""
        return self.root / "output" / "data"

    @property
    def failure(self) -> Path:
        """The file that says why a job failed."""
        return self.root / "output" / "failure"

    @property
    def checkpoints(self) -> Path:
        """The folder that is copied to S3 while a job runs, and back when it starts again."""
        return self.root / "checkpoints"


@dataclass(frozen=True)
class Job:
    """A training job as this machine sees it.

    Fields:
        hyperparameters: name -> value. A number stays the text that it was, so that nothing is rounded.
        channels: name -> folder of its files.
        model, output_data: folders to write into.
        hosts: the names of all machines, sorted.
        current_host: the name of this one.
        interface: of the network between the machines; "" where nothing is said.
    """

    hyperparameters: dict[str, Any]
    channels: dict[str, Path]
    model: Path
    output_data: Path
    hosts: tuple[str, ...] = ("localhost",)
    current_host: str = "localhost"
    interface: str = ""

    @property
    def rank(self) -> int:
        """The number of this machine, from 0."""
        return self.hosts.index(self.current_host)


def places(environment: Mapping[str, str] | None = None) -> Places:
    """Return where things lie: under the folder that ``SAGEMAKER_BASE_DIR`` names, else under ``/opt/ml``."""
    environment = os.environ if environment is None else environment
    return Places(Path(environment.get(ROOT) or _DEFAULT_ROOT))


def read_job(environment: Mapping[str, str] | None = None) -> Job:
    """Read what the files under the root, and ``SM_*`` variables where there are any, say of the job.

    Raises:
        UserError: a file or a variable is no JSON or holds something else than it should.
    """
    environment = os.environ if environment is None else environment
    where = places(environment)
    given = _object(where.config / "hyperparameters.json", environment, "SM_HPS")
    hosts, current, interface = _hosts(where, environment)
    return Job(
        {name: decode(value) for name, value in given.items()},
        _channels(where, environment),
        Path(environment.get("SM_MODEL_DIR") or where.model),
        Path(environment.get("SM_OUTPUT_DATA_DIR") or where.output_data),
        hosts,
        current,
        interface,
    )


def decode(value: Any) -> Any:
    """Return the value of a hyperparameter. The platform sends texts, some of which clients have encoded as JSON.

    ``'"x"'`` becomes ``x``, ``true`` a bool, ``[1]`` a list; ``1e-4``, ``007`` and ``x`` stay as they are.
    """
    text = value if isinstance(value, str) else json.dumps(value)
    try:
        return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def wait_for_hosts(
    hosts: tuple[str, ...], seconds: float = 300, resolve: Callable[[str], object] = socket.gethostbyname
) -> None:
    """Wait until the names of all machines have addresses: they come some time after the start.

    Raises:
        UserError: one has none after ``seconds``.
    """
    end = time.monotonic() + seconds
    waiting = list(hosts)
    while waiting:
        try:
            resolve(waiting[0])
            waiting.pop(0)
        except OSError as error:
            if time.monotonic() > end:
                raise UserError(f"the host {waiting[0]} has no address after {seconds:g} s ({error})") from None
            time.sleep(min(1.0, seconds / 10))


def write_failure(place: Places, reason: str) -> None:
    """Say why a job failed: SageMaker shows the beginning as FailureReason.

    Raises:
        UserError: it cannot be written.
    """
    # The name of a file may hold bytes that are no UTF-8, which Python keeps as characters that cannot be encoded.
    printable = reason.encode("utf-8", "replace").decode("utf-8")
    write_text(place.failure, printable[:FAILURE_CHARACTERS])


def _object(path: Path, environment: Mapping[str, str], variable: str) -> dict[str, Any]:
    """Return the object that a variable holds, else the one in a file; an empty one where there is neither."""
    if not environment.get(variable):
        return read_json(path) if path.exists() else {}
    try:
        value = json.loads(environment[variable])
    except (ValueError, RecursionError) as error:
        raise UserError(f"{variable} is no JSON ({error}): unset or mend it") from None
    if not isinstance(value, dict):
        raise UserError(f"{variable} holds no JSON object: unset or mend it")
    return value


def _channels(where: Places, environment: Mapping[str, str]) -> dict[str, Path]:
    """Return name -> folder of the channels that the job names and that are there, one or more.

    Raises:
        UserError: a channel comes as a pipe.
    """
    described = _object(where.config / "inputdataconfig.json", environment, "SM_INPUT_DATA_CONFIG")
    for name, channel in described.items():
        if isinstance(channel, dict) and channel.get("TrainingInputMode") == "Pipe":
            raise UserError(f"the channel {name} comes as a pipe: choose the input mode File or FastFile")
    folders = {path.name: path for path in sorted(where.data.glob("*")) if path.is_dir()}
    folders |= {name: where.data / name for name in described}
    for variable, folder in environment.items():
        if variable.startswith("SM_CHANNEL_"):
            named = variable.removeprefix("SM_CHANNEL_")
            name = next((one for one in folders if one.upper() == named), named.lower())
            folders[name] = Path(folder)
    return folders


def _hosts(where: Places, environment: Mapping[str, str]) -> tuple[tuple[str, ...], str, str]:
    """Return the names of all machines, of this one, and of their network.

    Raises:
        UserError: this machine is not among all of them.
    """
    resources = _object(where.config / "resourceconfig.json", environment, "SM_RESOURCE_CONFIG")
    hosts, current = resources.get("hosts", ["localhost"]), resources.get("current_host")
    if environment.get("SM_HOSTS"):
        try:
            hosts = json.loads(environment["SM_HOSTS"])
        except (ValueError, RecursionError):
            raise UserError("SM_HOSTS is no JSON: unset or mend it") from None
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) for host in hosts):
        raise UserError("the hosts of the job are no list of names: mend resourceconfig.json")
    current = environment.get("SM_CURRENT_HOST") or current or hosts[0]
    if current not in hosts:
        raise UserError(f"this host, {current}, is not one of the job's hosts {', '.join(hosts)}")
    interface = environment.get("SM_NETWORK_INTERFACE_NAME") or resources.get("network_interface_name") or ""
    return tuple(sorted(hosts)), str(current), str(interface)
