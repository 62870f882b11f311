"""What an old release of safetensors cannot write."""

from __future__ import annotations

import importlib.metadata

import pytest


def needs_complex_numbers() -> None:
    """Skip a test of complex numbers where this release of safetensors has none."""
    major, minor = importlib.metadata.version("safetensors").split(".")[:2]
    if (int(major), int(minor)) < (0, 7):
        pytest.skip("safetensors before 0.7 writes no complex numbers")
