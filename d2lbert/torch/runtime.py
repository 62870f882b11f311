"""Where and how a run takes place: device, processes, seed, batches as tensors."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.parallel import DistributedDataParallel

from d2lbert.data.batching import Batch
from d2lbert.errors import UserError, unknown_name

PRECISIONS = ("auto", "float32", "bfloat16")

_Item = TypeVar("_Item")


def best_device() -> torch.device:
    """Return the GPU if there is one, else the processor."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def check_precision(precision: str) -> None:
    """Refuse a precision that is not in the list."""
    if precision not in PRECISIONS:
        raise unknown_name("precision", precision, PRECISIONS)


def autocast(device: torch.device | str, precision: str) -> torch.autocast:
    """Return the context in which forward passes of a training run; weights, moments and losses stay in float32.

    In bfloat16 matrix products keep 8 digits of 24 and take about half the time, where the device has instructions for
    them: NVIDIA GPUs since 2020, some processors (AVX512_BF16, AMX). ``auto`` uses it on an NVIDIA GPU alone, so that
    the same seed gives the same numbers on every processor. Source: Micikevicius et al. 2018, with float16.
    """
    kind = torch.device(device).type
    reduced = precision == "bfloat16" or (precision == "auto" and kind == "cuda")
    return torch.autocast(kind, dtype=torch.bfloat16, enabled=reduced)


def compile_blocks(model: nn.Module) -> None:
    """Let ``torch.compile`` make kernels for each block of a model. Names and weights stay as they are.

    Sizes are dynamic: the number of rows differs from batch to batch, and one kernel serves all.

    Raises:
        UserError: there is no C++ compiler, which PyTorch needs for it.
    """
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        raise UserError("compiling needs a C++ compiler: install g++, name another in CXX, or leave --compile out")
    for module in model.modules():
        if isinstance(module, nn.ModuleList):
            for block in module:
                block.compile(dynamic=True)


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
    return {name: to_device(getattr(batch, name), device) for name in names}


def to_device(array: np.ndarray, device: torch.device | str) -> Tensor:
    """Return an array as a tensor on a device. A GPU fetches it while it still computes: from pinned memory."""
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def ahead(items: Iterator[_Item], depth: int = 2) -> Iterator[_Item]:
    """Yield the items of an iterator, which a thread works through up to ``depth`` items ahead.

    So batches are made while a GPU computes. The order stays, and an exception comes where its item would have come.
    """
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(_take, items) for _ in range(depth))
        while taken := waiting.popleft().result():
            waiting.append(thread.submit(_take, items))
            yield from taken


def _take(items: Iterator[_Item]) -> list[_Item]:
    """Return the next item, or nothing at the end."""
    return list(islice(items, 1))


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
