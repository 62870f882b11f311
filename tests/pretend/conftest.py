"""What the checks on an accelerator share."""

from __future__ import annotations

import pytest
import torch
from small_models import ACCELERATOR


@pytest.fixture(scope="session")
def accelerator() -> torch.device:
    """The pretend device, or the real one that ``D2LBERT_ACCELERATOR`` names."""
    return torch.device(ACCELERATOR)
