"""The state of a fine-tuning run between two epochs, so that a run that was stopped goes on bit for bit.

A checkpoint is two files: the state, and a small JSON that names it with its sha256 and is written last. Only tensors
and plain numbers are stored; it is read with ``weights_only``, so no code in it can run.
"""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch

from d2lbert.errors import UserError
from d2lbert.files import atomic, write_text

_INDEX = "checkpoint.json"


def save_checkpoint(folder: str | Path, epoch: int, settings: dict[str, Any], state: dict[str, Any]) -> None:
    """Write the state after an epoch. Until it is complete the one before stays.

    Args:
        folder: made if it does not exist.
        epoch: how many are done.
        settings: what must be the same when the run goes on; JSON.
        state: tensors, numbers, strings, and lists and dictionaries of them.
    """
    target = Path(folder)
    name = f"epoch-{epoch:04d}.pt"
    with atomic(target / name) as temporary:
        torch.save({**state, "random": _random_state()}, temporary)
        digest = hashlib.sha256(temporary.read_bytes()).hexdigest()
    index = {"file": name, "sha256": digest, "epoch": epoch, "settings": settings}
    write_text(target / _INDEX, json.dumps(index, indent=2) + "\n")
    for older in target.glob("epoch-*.pt"):
        if older.name != name:
            older.unlink()


def load_checkpoint(folder: str | Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return the last state, and put the random numbers back to where they were; None where there is none.

    Raises:
        UserError: the checkpoint is damaged, or of a run with other settings.
    """
    index_path = Path(folder) / _INDEX
    if not index_path.is_file():
        return None
    remedy = f"remove {folder} to start anew"
    try:
        index = json.loads(index_path.read_text(encoding="utf-8"))
        content = (Path(folder) / index["file"]).read_bytes()
        intact = hashlib.sha256(content).hexdigest() == index["sha256"]
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"the checkpoint in {folder} cannot be read ({error}): {remedy}") from None
    if not intact:
        raise UserError(f"the checkpoint in {folder} is damaged (wrong sha256): {remedy}")
    for name, value in settings.items():
        if index["settings"].get(name) != value:
            found = index["settings"].get(name)
            raise UserError(f"the checkpoint in {folder} is of a run with {name} {found}, not {value}: {remedy}")
    state: dict[str, Any] = torch.load(Path(folder) / index["file"], map_location="cpu", weights_only=True)
    _restore(state.pop("random"))
    return state


def _random_state() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()
    version, numbers, gauss = random.getstate()
    state = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest],
        "python": [version, list(numbers), gauss],
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def _restore(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
