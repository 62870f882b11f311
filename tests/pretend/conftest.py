"""What the checks on an accelerator share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def accelerator() -> torch.device:
    """The pretend device, or the real one that ``D2LBERT_ACCELERATOR`` names."""
    # Only make test-device has this folder on its path; a run of all tests reads this file, too.
    from small_models import ACCELERATOR

    return torch.device(ACCELERATOR)
