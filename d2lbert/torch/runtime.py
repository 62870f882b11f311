"""Where and how a run takes place: device, seed, batches as tensors."""

from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor

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
