"""Where files are on this machine: those of this package, downloaded ones, those of other Python packages."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def home() -> Path:
    """Return the folder of ``manifest.toml`` and ``samples``: in the installed package, otherwise in the checkout."""
    package = Path(__file__).resolve().parent.parent
    bundled = package / "data" / "_bundled"
    return bundled if bundled.is_dir() else package.parent / "data"


def cache_folder() -> Path:
    """Return the folder for downloaded files: ``$D2LBERT_CACHE``, or the system's cache folder."""
    import pooch

    folder = os.environ.get("D2LBERT_CACHE")
    return Path(folder).expanduser() if folder else Path(pooch.os_cache("d2lbert"))


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed Python package, without importing it; None where it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])
