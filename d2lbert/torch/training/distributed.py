"""Many processes that train one model together: who they are, and what each writes and reads of its state.

``torch.distributed.checkpoint`` writes the state, in parts: each process what it holds, and any number of them can read
it. Its files are safetensors: no code in them can run.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from d2lbert.errors import UserError
from d2lbert.torch.runtime import best_device


@dataclass(frozen=True)
class World:
    """This process among all that train one model together.

    Fields:
        rank: its number, from 0.
        size: how many there are.
        sharded: whether each process keeps a part of the weights, gradients and moments (Rajbhandari et al. 2020), or
            all of them.
    """

    rank: int = 0
    size: int = 1
    sharded: bool = False

    @classmethod
    def join(cls, sharded: bool = False) -> World:
        """Meet the other processes that ``torchrun`` has started; alone, and whole, where it has not."""
        if "WORLD_SIZE" not in os.environ:
            return cls()
        if not distributed.is_initialized():
            backend = "nccl" if torch.cuda.is_available() else "gloo"
            store, rank, size = next(iter(distributed.rendezvous("env://")))
            # After a crash torchrun starts all processes again, with a store that may still hold the addresses of the
            # dead ones; each attempt reads and writes under a name of its own.
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = distributed.PrefixStore(f"attempt {attempt}", store)
            distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
        return cls(distributed.get_rank(), distributed.get_world_size(), sharded)

    @property
    def device(self) -> torch.device:
        """The device of this process: with several GPUs, each process has its own."""
        device = best_device()
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if device.type == "cuda" else device

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model whose gradients are averaged over all processes. Make the optimiser after it.

        A sharded model gathers the weights of one block at a time; what stands outside of the blocks, embeddings and
        heads, is gathered for the whole step.
        """
        if self.size == 1:
            return model
        if not self.sharded:
            return DistributedDataParallel(model)
        mesh = init_device_mesh(self.device.type, (self.size,))
        for module in list(model.modules()):
            if isinstance(module, nn.ModuleList):
                for block in module:
                    fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    @contextlib.contextmanager
    def no_sync(self, model: nn.Module) -> Iterator[None]:
        """In this context gradients add up and are not yet averaged."""
        if isinstance(model, DistributedDataParallel):
            with model.no_sync():
                yield
        elif isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(False)
            yield
            model.set_requires_gradient_sync(True)
        else:
            yield

    def share(self, value: str = "") -> str:
        """Return the text that the first process gave."""
        values = [value]
        if self.size > 1:
            distributed.broadcast_object_list(values)
        return values[0]

    def add(self, values: Tensor) -> Tensor:
        """Return the sum over all processes."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            distributed.barrier()

    def leave(self) -> None:
        """Part from the other processes."""
        if distributed.is_initialized():
            distributed.destroy_process_group()


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
