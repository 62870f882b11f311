"""Many processes that train one model together: their group, and the state that they save and load.

``torch.distributed.checkpoint`` writes the state in parts: each process writes what it holds, and any number of
processes can read it. Its files are safetensors, so no code in them can run. What shards a model and what writes its
state takes as long to import as all the rest of PyTorch, so it is imported where it is used.
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
from torch.nn.parallel import DistributedDataParallel

from d2lbert.errors import UserError
from d2lbert.torch.runtime import best_device


@dataclass(frozen=True)
class World:
    """This process among all that train one model together.

    Fields:
        rank: the number of this process, from 0.
        size: the number of processes.
        sharded: whether each process keeps a part of the weights, gradients and moments (Rajbhandari et al. 2020), or
            all of them.
    """

    rank: int = 0
    size: int = 1
    sharded: bool = False

    @classmethod
    def init(cls, sharded: bool = False) -> World:
        """Join the processes that ``torchrun`` has started, and return this one's ``World``.

        Without ``torchrun`` this process is alone and keeps everything, whatever ``sharded`` is.

        Raises:
            UserError: there is no GPU left for this process.
        """
        if "WORLD_SIZE" not in os.environ:
            return cls()
        if not distributed.is_initialized():
            device = own_device()
            if device.type == "cuda":
                torch.cuda.set_device(device)  # from where NCCL talks
            backend = "nccl" if device.type == "cuda" else "gloo"
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
        return own_device()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model with its gradients averaged over all processes. Create the optimiser afterwards.

        A sharded model gathers the weights of one block at a time. What is outside the blocks, embeddings and heads, is
        gathered for the whole step.
        """
        if self.size == 1:
            return model
        if not self.sharded:
            return DistributedDataParallel(model)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.size,))
        for module in list(model.modules()):
            if isinstance(module, nn.ModuleList):
                for block in module:
                    fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    @contextlib.contextmanager
    def no_sync(self, model: nn.Module) -> Iterator[None]:
        """In this context gradients accumulate and are not yet averaged over the processes."""
        if isinstance(model, DistributedDataParallel):
            with model.no_sync():
                yield
        elif self.sharded and self.size > 1:
            from torch.distributed.fsdp import FSDPModule

            assert isinstance(model, FSDPModule)  # which fully_shard made of it
            model.set_requires_gradient_sync(False)
            yield
            model.set_requires_gradient_sync(True)
        else:
            yield

    def broadcast(self, value: str = "") -> str:
        """Return the text that the first process passed. Every process must call it."""
        values = [value]
        if self.size > 1:
            distributed.broadcast_object_list(values)
        return values[0]

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all processes, computed in place. Every process must call it."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def barrier(self) -> None:
        """Wait until all processes have reached this call."""
        if self.size > 1:
            distributed.barrier()

    def destroy(self) -> None:
        """Leave the process group, if there is one, and free what it uses."""
        if distributed.is_initialized():
            distributed.destroy_process_group()


def own_device() -> torch.device:
    """Return the best device, and of several GPUs the one of this process.

    Raises:
        UserError: there are more processes than GPUs, or all are to take one: NCCL lets no two share a GPU.
    """
    device = best_device()
    if device.type != "cuda":
        return device
    if device.index is not None:
        if int(os.environ.get("LOCAL_WORLD_SIZE", 1)) > 1:
            raise UserError(f"D2LBERT_DEVICE={device} is one GPU for several processes: name cuda, without a number")
        return device
    rank, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if rank >= count:
        raise UserError(
            f"process {rank + 1} of this machine has no GPU, for there {'is' if count == 1 else 'are'} only {count}: "
            "start no more processes than GPUs, or set D2LBERT_DEVICE=cpu"
        )
    return torch.device("cuda", rank)


def save_state(folder: Path, tensors: dict[str, Tensor], world: World) -> None:
    """Write tensors into a folder. Every process calls it, with the same names.

    Args:
        folder: a new folder, on a disk that all processes see.
        tensors: by name, either whole and the same in every process, or sharded.

    Raises:
        UserError: the disk is full or the folder cannot be written.
    """
    from torch.distributed.checkpoint import HuggingFaceStorageWriter, save
    from torch.distributed.checkpoint.api import CheckpointException

    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    try:
        with _without_single_process_warning():
            save(tensors, storage_writer=writer, no_dist=world.size == 1)
    except CheckpointException as error:  # what went wrong at each process
        for cause, _ in error.failures.values():
            if isinstance(cause, OSError):
                reason = cause.strerror or cause
                raise UserError(f"cannot write {folder}: {reason}; free space, then go on with --resume") from None
        raise


def load_state(folder: Path, tensors: dict[str, Tensor], world: World) -> None:
    """Fill tensors in place with what :func:`save_state` wrote, however many processes wrote it.

    Raises:
        RuntimeError: the folder does not hold these tensors.
    """
    from torch.distributed.checkpoint import HuggingFaceStorageReader, load
    from torch.distributed.checkpoint.api import CheckpointException

    reader = HuggingFaceStorageReader(str(folder))
    try:
        with _without_single_process_warning():
            load(tensors, storage_reader=reader, no_dist=world.size == 1)
    except CheckpointException as error:  # no Exception for Python: it would pass by all that expect one
        causes = ", ".join(str(cause) for cause, _ in error.failures.values())
        raise RuntimeError(causes) from error


def gather(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors with sharded ones made whole. Every process must call it, and gets all of them."""
    # A sharded one, a DTensor, has a method that collects the parts.
    return {name: value.full_tensor() if hasattr(value, "full_tensor") else value for name, value in tensors.items()}


@contextlib.contextmanager
def _without_single_process_warning() -> Iterator[None]:
    """Silence PyTorch's warning that there is only one process: it comes even with ``no_dist``."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable or uninitialized")
        yield
