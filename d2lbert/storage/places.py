"""Where files are on this machine: those of this package, downloaded ones, those of other Python packages."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from d2lbert.errors import UserError


def home() -> Path:
    """Return the folder of ``manifest.toml`` and ``samples``: in the installed package, otherwise in the checkout."""
    package = Path(__file__).resolve().parent.parent
    bundled = package / "data" / "_bundled"
    return bundled if bundled.is_dir() else package.parent / "data"


def cache_folder() -> Path:
    """Return the folder for downloaded files: ``$D2LBERT_CACHE``, or the system's cache folder.

    Raises:
        UserError: as :func:`folder_named_by`.
    """
    import pooch

    return folder_named_by("D2LBERT_CACHE") or Path(pooch.os_cache("d2lbert"))


def folder_named_by(variable: str) -> Path | None:
    """Return the folder that an environment variable names; a ``~`` is resolved. None where it is empty or not set.

    Raises:
        UserError: it begins with ``~`` and the name of a user who has no home.
    """
    folder = os.environ.get(variable)
    try:
        return Path(folder).expanduser() if folder else None
    except RuntimeError:
        raise UserError(f"{variable} is {folder!r}, but nobody here has that home: correct or unset it") from None


def package_folder(name: str) -> Path | None:
    """Return the folder of an installed Python package, without importing it; None where it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])
