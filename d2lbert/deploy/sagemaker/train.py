"""The program ``train`` of a container: a training job of SageMaker becomes one run of ``d2lbert``.

The run is a process of its own. This one hands on what it says, tells it to save its state when SageMaker wants to stop
the job, and writes down in one line why it failed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from d2lbert.config.settings import Settings
from d2lbert.config.training import Pretraining, Training
from d2lbert.data.pretraining.batches import PretrainingSettings
from d2lbert.data.pretraining.masking import MaskingRates
from d2lbert.data.pretraining.shards import Preparation
from d2lbert.data.readers.tables import Columns
from d2lbert.deploy.sagemaker.contract import Job, Places, places, read_job, wait_for_hosts, write_failure
from d2lbert.errors import UserError, refused_by_system, unknown_name

STOPPED = 128 + signal.SIGTERM
_MISTAKE = 2
_PORT = "29500"  # at which the first machine waits for the others, unless MASTER_PORT names another
_TAIL = 65_536  # bytes of what a run said last
# SageMaker's own, not the model's: of its SDK, and of a tuning job.
_PLATFORM = ("sagemaker_", "_tuning_objective_metric")
# What the container itself sets.
_OURS = ("out", "resume", "checkpoint")


@dataclass(frozen=True)
class _Command:
    """A command of ``d2lbert`` that a job can run.

    Fields:
        settings: the classes whose fields are options.
        own: further options, by the names that hyperparameters have -> their defaults.
        renamed: field -> its option, where that differs.
        arguments: from a job to the arguments that say where its data lie and where its results go.
    """

    settings: tuple[type[Settings], ...]
    own: Mapping[str, Any]
    renamed: Mapping[str, str]
    arguments: Callable[[Job, Places, dict[str, Any]], list[str]]

    @property
    def options(self) -> dict[str, Any]:
        """Name of each hyperparameter -> its default; None where it has none."""
        every = [field for kind in self.settings for field in fields(kind) if not isinstance(field.default, Settings)]
        found: dict[str, Any] = {field.name: field.default for field in every}
        found |= self.own
        return {self.renamed.get(name, name): default for name, default in found.items()}


def main() -> None:
    """Run the job that the files under the root describe, and exit.

    The status is 0 after a finished run, 2 after a mistake of the user, 143 where SageMaker stopped the job and its
    state is saved, and otherwise that of the run.
    """
    place = places()
    try:
        status = _run(place)
    except (UserError, OSError) as error:
        reason = " ".join(str(error if isinstance(error, UserError) else refused_by_system(error)).split())
        print(f"d2lbert: {reason}", file=sys.stderr)
        with contextlib.suppress(UserError):  # a disk that takes nothing: the line above is all that is left
            write_failure(place, reason)
        status = _MISTAKE
    sys.exit(status)


def _run(place: Places) -> int:
    job = read_job()
    command, environment = command_of(job, place), _environment(job)
    if len(job.hosts) > 1:
        wait_for_hosts(job.hosts)
    status, said = _supervise(command, environment)
    if status == 0 and job.rank == 0:
        _collect(job, place)
    elif status not in (0, STOPPED):
        write_failure(place, _reason(status, said))
    return status


def command_of(job: Job, place: Places) -> list[str]:
    """Return the command line of a job's run.

    The hyperparameter ``command`` is ``finetune`` (the default) or ``pretrain``; all others have the names of that
    command's options, with ``-`` or ``_``. ``task`` is the task of ``finetune``.

    Raises:
        UserError: a hyperparameter is not known, or a channel is missing.
    """
    given = {
        name.replace("-", "_"): value for name, value in job.hyperparameters.items() if not name.startswith(_PLATFORM)
    }
    name = str(given.pop("command", "finetune"))
    if name not in _COMMANDS:
        raise unknown_name("command", name, _COMMANDS)
    if len(job.hosts) > 1 and name == "finetune":
        raise UserError(f"finetune runs on one machine, the job has {len(job.hosts)}: set its instance count to 1")
    arguments = [name, *_COMMANDS[name].arguments(job, place, given)]
    options = _COMMANDS[name].options
    for option, value in given.items():
        if option in _OURS:
            raise UserError(f"the hyperparameter {option} is set by the container: leave it out")
        if option not in options:
            raise unknown_name("hyperparameter", option, options)
        arguments += _option(option, value, options[option])
    launcher = _launcher(job) if name == "pretrain" else []
    return [sys.executable, *launcher, "-m", "d2lbert.cli", *arguments]


def _option(name: str, value: Any, default: Any) -> list[str]:
    """Return a hyperparameter as the command line has it. What is off by default gets no switch to be off."""
    switch = f"--{name.replace('_', '-')}"
    if isinstance(default, bool):
        wanted = {"true": True, "false": False}.get(str(value).lower())
        if wanted is None:
            raise UserError(f"the hyperparameter {name} is {value!r}: give true or false")
        return [] if wanted == default else [switch if wanted else f"--no-{name.replace('_', '-')}"]
    if isinstance(value, dict | list | bool) or value is None:
        raise UserError(f"the hyperparameter {name} is {value!r}: give one text or number")
    return [switch, value]


def _finetune(job: Job, place: Places, given: dict[str, Any]) -> list[str]:
    """Return task, data and places of ``finetune``; what they are made of is taken out of ``given``."""
    if "task" not in given:
        raise UserError("the hyperparameter task is missing: classification, pair, tagging, or another of finetune")
    arguments = [str(given.pop("task"))]
    for option, names in (("train", ("train", "training")), ("dev", ("dev", "validation"))):
        channel = next((name for name in names if name in job.channels), None)
        if channel is not None:
            arguments += [f"--{option}", str(_file(job, channel, given.pop(option, None)))]
        elif option == "train" and option not in given:
            raise UserError("there is no channel train: give one, or the hyperparameter train, a data set's name")
    if "model" not in given:
        given["model"] = str(job.channels["model"]) if "model" in job.channels else "minilm"
    return [*arguments, "--out", str(job.model), "--checkpoint", str(place.checkpoints)]


def _pretrain(job: Job, place: Places, given: dict[str, Any]) -> list[str]:
    """Return corpus and places of ``pretrain``. Its whole run lies with the checkpoints, so that it can go on."""
    channel = next((name for name in ("corpus", "train", "training") if name in job.channels), None)
    if channel is None:
        raise UserError("there is no channel corpus: give one with text files or a prepared corpus")
    return ["--corpus", str(job.channels[channel]), "--out", str(_run_folder(job, place)), "--resume"]


def _run_folder(job: Job, place: Places) -> Path:
    """Return the folder of a pretraining run.

    Raises:
        UserError: several machines have no disk in common.
    """
    if len(job.hosts) == 1:
        return place.checkpoints
    if "shared" not in job.channels:
        raise UserError("several machines need a disk that all can write: give FSx or EFS as the channel shared")
    return job.channels["shared"] / "checkpoints"


_SWITCHES = {"cased": False, "sharded": False}
_COMMANDS = {
    "finetune": _Command(
        (Training, Columns),
        dict.fromkeys(("model", "train", "dev", "format")),
        {"learning_rate": "lr"},
        _finetune,
    ),
    "pretrain": _Command(
        (Pretraining, PretrainingSettings, MaskingRates, Preparation),
        {**dict.fromkeys(("config", "model", "vocab_size", "workers", "dropout", "initializer_range")), **_SWITCHES},
        {
            "learning_rate": "lr",
            "compiled": "compile",
            "chosen": "masking_share",
            "masked": "mask_token_share",
            "replaced": "random_token_share",
        },
        _pretrain,
    ),
}


def _file(job: Job, channel: str, named: Any) -> Path:
    """Return the one file of a channel, or the one that a hyperparameter names.

    Raises:
        UserError: it is not there, or there are several and none is named.
    """
    folder = job.channels[channel]
    if named is not None:
        if not (folder / str(named)).is_file():
            raise UserError(f"the channel {channel} has no file {named}: name one of its files, or leave it out")
        return folder / str(named)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    if len(files) != 1:
        option = "train" if channel.startswith("train") else "dev"
        counted = "no file" if not files else f"{len(files)} files"
        raise UserError(f"the channel {channel} has {counted}: give one, or name it by the hyperparameter {option}")
    return files[0]


def _launcher(job: Job) -> list[str]:
    """Return how Python is started: alone, or by torchrun, with a process for each GPU of each machine."""
    import torch

    processes = max(1, torch.cuda.device_count())
    if len(job.hosts) == 1 and processes == 1:
        return []
    place = ["--standalone"]
    if len(job.hosts) > 1:
        master = ["--master-addr", job.hosts[0], "--master-port", os.environ.get("MASTER_PORT", _PORT)]
        place = ["--nnodes", str(len(job.hosts)), "--node-rank", str(job.rank), *master]
    return ["-m", "torch.distributed.run", *place, "--nproc-per-node", str(processes)]


def _environment(job: Job) -> dict[str, str]:
    """Return the variables of a run: the network over which machines talk is the one that SageMaker names."""
    names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME") if job.interface and len(job.hosts) > 1 else ()
    return {**os.environ, **dict.fromkeys(names, job.interface)}


def _supervise(command: list[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command, hand on what it says, and return its status and the end of what it said on standard error.

    SIGTERM becomes Ctrl-C for the run: it saves its state after the current step, and ends.
    """
    stopped = threading.Event()
    runs: list[subprocess.Popen[bytes]] = []

    def stop(number: int, frame: object) -> None:
        stopped.set()
        for run in runs:
            run.send_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, stop)
    # A shell makes what it starts in the background deaf to Ctrl-C, and the run would be, too: it is heard again here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tail = b""
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=dict(environment)) as process:
        runs.append(process)
        if stopped.is_set():  # before there was anybody to tell
            process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while chunk := os.read(process.stderr.fileno(), _TAIL):
            sys.stderr.buffer.write(chunk)
            sys.stderr.buffer.flush()
            tail = (tail + chunk)[-_TAIL:]
    status = process.returncode
    if stopped.is_set() and status != 0:
        return STOPPED, ""
    return (status if status >= 0 else 128 - status), tail.decode("utf-8", "replace")


def _reason(status: int, said: str) -> str:
    """Return in one line why a run failed: what ``d2lbert`` complains of, else the last line."""
    lines = [line.strip() for line in said.replace("\r", "\n").splitlines() if line.strip()]
    complaints = [line for line in lines if line.startswith("d2lbert: ")]
    if complaints:
        return complaints[-1].removeprefix("d2lbert: ")
    if status == 128 + signal.SIGKILL:
        return "the run was killed, as the system does where memory is short: take a larger instance or smaller batches"
    return lines[-1] if lines else f"the run ended with status {status}"


def _collect(job: Job, place: Places) -> None:
    """Put results where SageMaker takes them: the model of a pretraining run, and the record of a training."""
    job.output_data.mkdir(parents=True, exist_ok=True)
    if (job.model / "training.json").is_file():
        shutil.copyfile(job.model / "training.json", job.output_data / "training.json")
        return
    run = _run_folder(job, place)
    job.model.mkdir(parents=True, exist_ok=True)
    for path in sorted(run.iterdir(), reverse=True):  # config.json last: with it, a folder is a model
        if path.is_file() and not path.name.startswith("."):
            target = job.output_data if path.suffix == ".csv" else job.model
            shutil.copyfile(path, target / path.name)
