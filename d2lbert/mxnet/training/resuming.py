"""Stop a training run and resume it bit for bit: its state in a checkpoint of :mod:`d2lbert.training.resuming`.

Gluon writes the state of its trainer as a pickle, which may run code when it is read. Here arrays are safetensors and
the rest is JSON. MXNet does not tell the state of its random generators, so a run sows them anew at every step
(:func:`~d2lbert.mxnet.runtime.seed_step`), and there is nothing to store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mxnet import gluon
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from d2lbert.mxnet.blocks import shared_names
from d2lbert.storage.files import read_json, write_text
from d2lbert.training.resuming import newest_checkpoint, write_checkpoint

_ARRAYS_FILE, _COUNTERS_FILE = "state.safetensors", "state.json"


def save_checkpoint(
    folder: str | Path,
    step: int,
    settings: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
    counters: dict[str, Any],
    keep: int = 2,
) -> None:
    """Write a checkpoint.

    Args:
        arrays: weights and moments.
        counters: everything else that changes, as JSON values.
        folder, step, settings, keep: as for :func:`~d2lbert.training.resuming.write_checkpoint`.

    Raises:
        UserError: the disk is full or the folder cannot be written. The older checkpoints are unchanged.
    """
    write_checkpoint(folder, step, settings, lambda target: write_state(target, arrays, counters), keep)


@contextlib.contextmanager
def load_checkpoint(
    folder: str | Path, settings: dict[str, Any]
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, Any]] | None]:
    """Yield the arrays and the counters of the newest undamaged state; None if there is no checkpoint.

    The run takes them up inside the ``with``, as :func:`~d2lbert.training.resuming.newest_checkpoint` says.

    Raises:
        UserError: all checkpoints are damaged, they belong to a run with other settings or of the other edition, or the
            state does not fit.
    """
    with newest_checkpoint(folder, settings) as path:
        yield None if path is None else read_state(path)


def write_state(folder: Path, arrays: Mapping[str, np.ndarray], counters: dict[str, Any]) -> None:
    """Write arrays and JSON values into the folder of one checkpoint.

    Raises:
        OSError: the disk is full.
    """
    try:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, folder / _ARRAYS_FILE)
    except SafetensorError as error:
        raise OSError(f"{error}") from None
    write_text(folder / _COUNTERS_FILE, json.dumps(counters, indent=1) + "\n")


def read_state(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return what :func:`write_state` wrote.

    Raises:
        ValueError: it is damaged.
    """
    try:
        return load_file(folder / _ARRAYS_FILE), read_json(folder / _COUNTERS_FILE)
    except SafetensorError as error:
        raise ValueError(f"{error}") from None


def read_numbers(folder: Path) -> dict[str, Any]:
    """Return the JSON values alone; a checkpoint of the PyTorch edition's pretraining has them, too."""
    return read_json(folder / _COUNTERS_FILE)


def fingerprint_of_weights(module: gluon.Block) -> str:
    """Return a short hash of a module's weights, for ``settings``. Any other weight gives another hash."""
    digest = hashlib.sha256()
    for name, parameter in shared_names(module).items():
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        digest.update(parameter.data().asnumpy().tobytes())
    return digest.hexdigest()[:16]
