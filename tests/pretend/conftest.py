"""What the checks on the pretend accelerator share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def accelerator() -> torch.device:
    """The pretend device."""
    return torch.device("pretend")
