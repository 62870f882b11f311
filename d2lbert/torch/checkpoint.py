"""A training run in one file, from which it goes on as if it had never stopped.

The file is in safetensors' format, so loading it runs no code. It holds the weights, the best weights so far, Adam's
averages, the state of the random generators, and in its header, as JSON, everything that is not a tensor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from d2lbert.errors import UserError
from d2lbert.files import atomic

_AVERAGES = ("exp_avg", "exp_avg_sq", "step")


@dataclass
class Checkpoint:
    """Where a run stands.

    Fields:
        identity: settings and sizes; a run can only be gone on with under the same.
        step, tokens, seconds: how far it is.
        history: the records so far.
        best: the best weights so far, as a state_dict.
    """

    identity: dict[str, Any]
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)


def write_checkpoint(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, run: Checkpoint) -> None:
    """Write the file atomically: a crash leaves the older one as it was."""
    tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best/{name}": value for name, value in run.best.items()}
    for name, parameter in model.named_parameters():
        tensors |= {f"adam/{kind}/{name}": optimizer.state[parameter][kind] for kind in _AVERAGES}
    tensors["random/cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random/cuda"] = torch.cuda.get_rng_state()
    # A copy of each: safetensors refuses tensors that share memory, as tied embeddings do.
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
    header = {name: getattr(run, name) for name in ("identity", "step", "tokens", "seconds", "history")}
    with atomic(path) as temporary:
        try:
            save_file(tensors, temporary, metadata={"run": json.dumps(header), "sha256": _digest(tensors)})
        except SafetensorError as error:
            raise OSError(f"{error}") from None


def read_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, identity: Mapping[str, Any]
) -> Checkpoint:
    """Bring model, optimizer and random generators to where the file stopped.

    Raises:
        UserError: the file is missing or damaged, or its run had other settings or sizes.
    """
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}: start the run without resume")
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata() or {}
        run = Checkpoint(**json.loads(metadata["run"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is no checkpoint or is damaged ({error}): start again in another folder") from None
    if _digest(tensors) != metadata.get("sha256"):
        raise UserError(f"{path} is damaged (wrong sha256): start again in another folder")
    for name in {**run.identity, **identity}:
        if run.identity.get(name) != identity.get(name):
            raise UserError(
                f"{path} is of another run: {name} was {run.identity.get(name)!r} and is now {identity.get(name)!r}; "
                "give the same or another folder"
            )
    model.load_state_dict(_part(tensors, "model/"))
    run.best = _part(tensors, "best/")
    for name, parameter in model.named_parameters():
        state = {kind: tensors[f"adam/{kind}/{name}"] for kind in _AVERAGES}
        # Adam counts steps on the processor, and keeps its averages where the parameter is.
        optimizer.state[parameter] = {
            kind: value if kind == "step" else value.to(parameter.device) for kind, value in state.items()
        }
    torch.set_rng_state(tensors["random/cpu"])
    if torch.cuda.is_available() and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"])
    return run


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A changed bit in the numbers is not seen by the format itself."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()
