"""How a run executes: device, precision, seed, and batches as tensors."""

from __future__ import annotations

import os
import random
import shutil
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from d2lbert.errors import UserError
from d2lbert.outputs import Rows

if TYPE_CHECKING:
    from d2lbert.data.batching import Batch

_Item = TypeVar("_Item")


def best_device() -> torch.device:
    """Return the device that ``$D2LBERT_DEVICE`` names, such as ``cpu`` or ``cuda:1``; else the GPU, else the CPU.

    Training loops take it unless they are given another.

    Raises:
        UserError: the variable names a device that this machine does not have.
    """
    name = os.environ.get("D2LBERT_DEVICE", "")
    if name:
        return _named_device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _named_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # PyTorch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise UserError(
            f"D2LBERT_DEVICE={name} is no device of this machine ({reason}): unset it, or name cpu, cuda or mps"
        ) from None
    return device


def place(model: nn.Module, device: torch.device | str | None = None) -> torch.device:
    """Move a model to a device, and return the device; None leaves the model where it is."""
    if device is not None:
        model.to(device)
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def autocast(device: torch.device | str, precision: str) -> torch.autocast:
    """Return the context for the forward passes of training; weights, moments and losses stay in float32.

    In bfloat16, matrix products keep 8 of 24 binary digits and take about half the time where the device has
    instructions for them: NVIDIA GPUs since 2020, some CPUs (AVX512_BF16, AMX).

    Args:
        precision: ``float32``, ``bfloat16`` or ``auto``: bfloat16 on an NVIDIA GPU, else float32, so that the same seed
            gives the same numbers on every CPU.

    Source: Micikevicius et al. 2018, with float16.
    """
    device_type = torch.device(device).type
    reduced = precision == "bfloat16" or (precision == "auto" and device_type == "cuda")
    return torch.autocast(device_type, dtype=torch.bfloat16, enabled=reduced)


def compile_blocks(model: nn.Module) -> None:
    """Compile each block of a model with ``torch.compile``. Names and weights stay as they are.

    Sizes are dynamic: the number of rows differs from batch to batch, and one kernel serves all.

    Raises:
        UserError: there is no C++ compiler, which PyTorch needs for this.
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


def to_tensors(batch: Batch, device: torch.device | str = "cpu") -> Rows[Tensor]:
    """Return the tensors of a batch on a device, for :meth:`d2lbert.torch.BertModel.forward` and the heads.

    A padded batch needs only the mask. A packed one needs position ids, sequence ids and starts.
    """
    names = ["token_ids", "segment_ids"]
    names += ["position_ids", "sequence_ids", "starts"] if batch.packed else ["mask"]
    return Rows(**{name: to_device(getattr(batch, name), device) for name in names})


def to_device(array: np.ndarray, device: torch.device | str) -> Tensor:
    """Return an array as a tensor on a device. Pinned memory lets a GPU compute while it copies."""
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def prefetch(items: Iterator[_Item], depth: int = 2) -> Iterator[_Item]:
    """Yield the items of an iterator, which a thread produces up to ``depth`` items ahead.

    So batches are prepared while a GPU computes. The order stays the same, and an exception is raised where its item
    would have come.
    """
    with ThreadPoolExecutor(1) as thread:
        pending = deque(thread.submit(_next_item, items) for _ in range(depth))
        while ready := pending.popleft().result():
            pending.append(thread.submit(_next_item, items))
            yield from ready


def _next_item(items: Iterator[_Item]) -> list[_Item]:
    """Return the next item in a list, an empty one at the end."""
    return list(islice(items, 1))
