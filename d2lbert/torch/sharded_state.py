"""The state of a training run on disk, in parts: each process writes what it holds, and any number of them can read it.

``torch.distributed.checkpoint`` does the work. Its files are safetensors: no code in them can run.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor
from torch.distributed import checkpoint
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.tensor import DTensor

from d2lbert.errors import UserError
from d2lbert.torch.runtime import World


def save_state(folder: Path, tensors: dict[str, Tensor], world: World) -> None:
    """Write tensors into a folder. Every process calls it, with the same names.

    Args:
        folder: a new one, which all processes see.
        tensors: whole ones, the same at every process, or sharded ones.

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        with _alone_is_meant():
            checkpoint.save(tensors, storage_writer=writer, no_dist=world.size == 1)
    except CheckpointException as error:  # what went wrong at each process
        for cause, _ in error.failures.values():
            if isinstance(cause, OSError):
                reason = cause.strerror or cause
                raise UserError(f"cannot write {folder}: {reason}; free space, then go on with --resume") from None
        raise


def load_state(folder: Path, tensors: dict[str, Tensor], world: World) -> None:
    """Fill tensors in place with what :func:`save_state` has written, however many processes wrote it."""
    reader = HuggingFaceStorageReader(str(folder))
    with _alone_is_meant():
        checkpoint.load(tensors, storage_reader=reader, no_dist=world.size == 1)


def gather(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return whole tensors. Every process must call it, and gets them all."""
    return {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in tensors.items()}


@contextlib.contextmanager
def _alone_is_meant() -> Iterator[None]:
    """Keep PyTorch from warning that there is one process only, even where it was told so."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        yield
