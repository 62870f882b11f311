"""Where and how a run takes place: device, processes, seed, batches as tensors."""

from __future__ import annotations

import contextlib
import os
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from d2lbert.data.batching import Batch


def best_device() -> torch.device:
    """Return the GPU if there is one, else the processor."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and PyTorch."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def to_tensors(batch: Batch, device: torch.device | str = "cpu") -> dict[str, Tensor]:
    """Return the keyword arguments of :meth:`d2lbert.torch.BertModel.forward` for a batch.

    A padded batch needs only the mask; a packed one needs positions, sequence numbers and starts.
    """
    names = ["token_ids", "segment_ids"]
    names += ["position_ids", "sequence_ids", "starts"] if batch.packed else ["mask"]
    return {name: torch.from_numpy(getattr(batch, name)).to(device) for name in names}


@dataclass(frozen=True)
class World:
    """This process among all that train one model together.

    Fields:
        rank: its number, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls) -> World:
        """Meet the other processes that ``torchrun`` has started; alone where it has not."""
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
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def device(self) -> torch.device:
        """The device of this process: with several GPUs, each process has its own."""
        device = best_device()
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if device.type == "cuda" else device

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the model whose gradients are averaged over all processes."""
        return DistributedDataParallel(model) if self.size > 1 else model

    def no_sync(self, model: nn.Module) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which gradients add up and are not yet averaged."""
        return model.no_sync() if isinstance(model, DistributedDataParallel) else contextlib.nullcontext()

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
