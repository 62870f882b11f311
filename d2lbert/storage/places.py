"""Where things lie on this machine: what comes with the package, what is downloaded, what a Python package brings."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def home() -> Path:
    """Return the folder of ``manifest.toml`` and ``samples``: in the installed package, or else in the checkout."""
    package = Path(__file__).resolve().parent.parent
    bundled = package / "data" / "_bundled"
    return bundled if bundled.is_dir() else package.parent / "data"


def cache_folder() -> Path:
    """Return the folder for downloaded files: ``$D2LBERT_CACHE``, or the system's cache folder."""
    import pooch

    chosen = os.environ.get("D2LBERT_CACHE")
    return Path(chosen).expanduser() if chosen else Path(pooch.os_cache("d2lbert"))


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed Python package, without importing it; None where it is not installed."""
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])
