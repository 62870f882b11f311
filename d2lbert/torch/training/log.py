"""Curves for TensorBoard, whose writer comes with PyTorch. The log is :class:`d2lbert.training.log.TrainingLog`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from d2lbert.errors import UserError


def tensorboard_curves(folder: Path, step: int) -> Any:
    """Return TensorBoard's writer. It hides what an earlier run wrote after ``step``.

    Raises:
        UserError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("--tensorboard needs the package tensorboard: run pip install tensorboard") from None
    return SummaryWriter(str(folder), purge_step=step + 1)
