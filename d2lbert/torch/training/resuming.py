"""Stop a training run and resume it bit for bit: its state in a checkpoint of :mod:`d2lbert.training.resuming`.

The same bits come from the same kind of processor with as many threads: in another order, sums are rounded in another
way. Only tensors and plain values are stored. They are read with ``weights_only``, so no code in a file can run.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from d2lbert.training.resuming import newest_checkpoint, write_checkpoint
from d2lbert.training.run import fingerprint_of_examples as fingerprint_of_examples  # its name for others

_STATE_FILE = "state.pt"


def save_checkpoint(
    folder: str | Path, step: int, settings: dict[str, Any], state: dict[str, Any], keep: int = 2
) -> None:
    """Write a checkpoint, including the state of the random generators.

    Args:
        state: tensors, numbers, strings, and lists and dictionaries of them.
        folder, step, settings, keep: as for :func:`~d2lbert.training.resuming.write_checkpoint`.

    Raises:
        UserError: the disk is full or the folder cannot be written. The older checkpoints are unchanged.
    """
    state = {**state, "random": _random_state()}
    write_checkpoint(folder, step, settings, lambda target: _save_tensors(state, target / _STATE_FILE), keep)


@contextlib.contextmanager
def load_checkpoint(folder: str | Path, settings: dict[str, Any]) -> Iterator[dict[str, Any] | None]:
    """Yield the newest undamaged state, the random generators restored; None if there is no checkpoint.

    The run takes it up inside the ``with``, as :func:`~d2lbert.training.resuming.newest_checkpoint` says.

    Raises:
        UserError: all checkpoints are damaged, they belong to a run with other settings, or the state does not fit.
    """
    with newest_checkpoint(folder, settings) as path:
        if path is None:
            yield None
            return
        state: dict[str, Any] = torch.load(path / _STATE_FILE, map_location="cpu", weights_only=True)
        _restore(state.pop("random"))
        yield state


class _RecordingFile(io.BufferedWriter):
    """A file that remembers why it could not be written: PyTorch turns that into a RuntimeError without the reason."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            raise


def _save_tensors(state: dict[str, Any], path: Path) -> None:
    """Write tensors and plain values.

    Raises:
        OSError: the disk is full.
    """
    stream = _RecordingFile(io.FileIO(path, "wb"))
    try:
        with stream:
            torch.save(state, stream)
    except Exception:
        if stream.error is not None:
            raise stream.error from None
        raise


def fingerprint_of_weights(module: nn.Module) -> str:
    """Return a short hash of a module's weights, for ``settings``. Any other weight gives another hash."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


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
