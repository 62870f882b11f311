"""The files of pretrained models: taken from the cache or downloaded from the hub, verified, in the book's layout.

A folder in the cache holds the vocabulary and the weights as they are on the hub, ``config.json`` and
``tokenizer_config.json`` made from the table, and ``origin.json``: where the files come from and the sha256 of each.
Every load compares the digests.

Not every digest is known beforehand. Where it is not, the first download is trusted and its sha256 recorded; from then
on only that file is accepted. This is "trust on first use": it notices a later change, not a wrong first download. The
commit of the repository is fixed in any case.

``$D2LBERT_HUB`` names another hub, such as a mirror; ``D2LBERT_OFFLINE=1`` forbids the network; ``$D2LBERT_CACHE``
moves the cache.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.download import DownloadError
from d2lbert.storage.files import read_json, remembered_sha256_of, write_text
from d2lbert.storage.locks import locked
from d2lbert.storage.places import cache_folder
from d2lbert.text import Unigram, WordPiece
from d2lbert.weights.folder import CONFIG_FILE, WEIGHTS_FILE
from d2lbert.zoo.convert import convert_bin
from d2lbert.zoo.hub import download_from_hub, repository_address
from d2lbert.zoo.table import ModelEntry

ORIGIN_FILE = "origin.json"


def hub_folder(entry: ModelEntry) -> Path:
    """Return the cache folder of a model of the hub, whether it exists or not; each revision has its own."""
    return cache_folder() / "models" / f"{entry.label.replace(':', '-')}-{entry.revision[:8]}"


def is_cached(entry: ModelEntry) -> bool:
    """Whether all files of a model of the hub are in the cache. They are not verified."""
    folder = hub_folder(entry)
    return all((folder / name).is_file() for name in (ORIGIN_FILE, entry.vocabulary, CONFIG_FILE, WEIGHTS_FILE))


def fetch_model(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the folder of a model of the hub with all files verified; missing files are downloaded.

    If several processes call this, one does the work and the others wait for it.

    Args:
        entry: the model.
        weights: False for the configuration and the vocabulary alone.

    Raises:
        UserError: a file can neither be found nor downloaded, or is not that of the table or of the first download. The
            message says where to get the files and into which folder to put them by hand.
    """
    folder = hub_folder(entry)
    with _locked(folder):
        digests = _read_digests(folder)
        trusted = _provide(entry, entry.vocabulary, folder, digests)
        if weights:
            trusted += _provide_weights(entry, folder, digests)
        _write_settings(entry, folder)
    if trusted:
        warnings.warn(
            f"{entry.label}: no checksum of {' and '.join(trusted)} was known beforehand; their sha256 is now written "
            f"into {folder / ORIGIN_FILE}, and nothing else will be taken for them from now on",
            stacklevel=2,
        )
    return folder


def _locked(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Lock the folder of a model: other processes wait.

    Where there are no locks, one of several processes whose file has just been removed ends in an error.
    """
    with contextlib.suppress(OSError):
        folder.parent.mkdir(parents=True, exist_ok=True)
    return locked(folder.with_name(f"{folder.name}.lock"))


def _provide_weights(entry: ModelEntry, folder: Path, digests: dict[str, str]) -> list[str]:
    """Make sure that the folder has the weights as safetensors, whole. Returns what :func:`_provide` does."""
    if _is_whole(folder / WEIGHTS_FILE, digests.get(WEIGHTS_FILE, "")):
        return []
    trusted = _provide(entry, entry.weights, folder, digests)
    if entry.weights != WEIGHTS_FILE:
        convert_bin(folder / entry.weights, folder / WEIGHTS_FILE)
        digests[WEIGHTS_FILE] = remembered_sha256_of(folder / WEIGHTS_FILE)
        _write_digests(entry, folder, digests)
        (folder / entry.weights).unlink(missing_ok=True)  # without a lock, another process may have removed it
    return trusted


def _provide(entry: ModelEntry, name: str, folder: Path, digests: dict[str, str]) -> list[str]:
    """Make sure that the folder has a file of the hub, whole, and record its digest.

    Returns:
        the file's name if it had to be trusted, because no digest was known; otherwise nothing.
    """
    path = folder / name
    known = entry.sha256.get(name) or digests.get(name, "")
    if not (_is_whole(path, known) if known else path.is_file()):
        _download(entry, name, folder, known)
    digest = remembered_sha256_of(path)
    if digests.get(name) != digest:
        digests[name] = digest
        _write_digests(entry, folder, digests)
    return [] if known else [name]


def _download(entry: ModelEntry, name: str, folder: Path, sha256: str) -> None:
    """Download a file, or say what to do by hand."""
    try:
        download_from_hub(entry, name, folder, sha256)
    except DownloadError as error:
        raise UserError(
            f"{name} of {entry.label} is not here and cannot be downloaded: {error}; get {entry.weights} "
            f"({entry.megabytes} MB) and {entry.vocabulary} from {repository_address(entry)}/tree/{entry.revision} "
            f"and put them into {folder}"
        ) from None


def _is_whole(path: Path, sha256: str) -> bool:
    """Whether a file exists and has the given digest; False where no digest is known."""
    return bool(sha256) and path.is_file() and remembered_sha256_of(path) == sha256


def _read_digests(folder: Path) -> dict[str, str]:
    path = folder / ORIGIN_FILE
    if not path.is_file():
        return {}
    digests: Any = read_json(path).get("sha256")
    if not isinstance(digests, dict):
        raise UserError(f"{path} holds no digests: delete the folder {folder} to begin anew")
    return digests


def _write_digests(entry: ModelEntry, folder: Path, digests: dict[str, str]) -> None:
    origin = {"repository": entry.repository, "revision": entry.revision, "sha256": digests}
    write_text(folder / ORIGIN_FILE, json.dumps(origin, indent=2) + "\n")


def _write_settings(entry: ModelEntry, folder: Path) -> None:
    """Write the settings of the model and its tokenizer, unless they are written and the table has not changed.

    The table knows the case and the sizes; in the repositories of old models these files are missing or wrong.
    """
    path, config = folder / CONFIG_FILE, json.dumps(entry.config.to_dict(), indent=2) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == config:
        return
    if entry.kind == "albert":
        Unigram.from_file(folder / entry.vocabulary).save_settings(folder)
    else:
        WordPiece.from_file(folder / entry.vocabulary, entry.lowercase).save_settings(folder)
    write_text(path, config)
