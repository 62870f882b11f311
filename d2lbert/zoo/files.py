"""The files of pretrained models: found in the cache or downloaded from the hub, verified, in the book's layout.

A folder in the cache has the vocabulary and the weights as the hub has them, ``config.json`` and
``tokenizer_config.json`` made from the table, and ``origin.json``: where the files are from and the sha256 of each.
Every load compares them.

Not every digest is known beforehand. Where it is not, the first download is believed and its sha256 written down; from
then on nothing else passes for it. That is "trust on first use": it notices a change, not a lie at the first time. The
commit of the repository is fixed in any case.

``$D2LBERT_HUB`` names another hub, such as a mirror; ``D2LBERT_OFFLINE=1`` forbids the network; ``$D2LBERT_CACHE``
moves the cache.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from d2lbert.errors import UserError
from d2lbert.storage.download import DownloadError, download
from d2lbert.storage.files import read_json, remembered_sha256_of, write_text
from d2lbert.storage.places import cache_folder
from d2lbert.text import Unigram, WordPiece
from d2lbert.weights.folder import CONFIG_FILE, WEIGHTS_FILE, write_tensors
from d2lbert.zoo.table import ModelEntry

if TYPE_CHECKING:
    from torch import Tensor

DEFAULT_HUB = "https://huggingface.co"
OLD_WEIGHTS_FILE = "pytorch_model.bin"
ORIGIN_FILE = "origin.json"

# The output layer of a head is often the table of the word embeddings once more, under one of these names.
_OUTPUT_LAYERS = ("decoder.weight", "vocab_projector.weight", "lm_head.weight")
_WORD_EMBEDDINGS = ("word_embeddings.weight", "wte.weight")


def hub_folder(entry: ModelEntry) -> Path:
    """Return the folder in the cache for a model of the hub, whether it is there or not; each revision has its own."""
    return cache_folder() / "models" / f"{entry.label.replace(':', '-')}-{entry.revision[:8]}"


def is_cached(entry: ModelEntry) -> bool:
    """Whether the files of a model of the hub are all in the cache. Does not verify them."""
    folder = hub_folder(entry)
    return all((folder / name).is_file() for name in (ORIGIN_FILE, entry.vocabulary, CONFIG_FILE, WEIGHTS_FILE))


def fetch_model(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the folder of a model of the hub, all files there and verified; download them if need be.

    Of several processes one does the work; the others wait for it.

    Args:
        weights: False for the configuration and the vocabulary alone.

    Raises:
        UserError: the files are nowhere to be had, or are not those of the table or of the first download. The message
            says from where to get them and into which folder to put them by hand.
    """
    folder = hub_folder(entry)
    with _locked(folder):
        digests = _read_digests(folder)
        believed = _provide(entry, entry.vocabulary, folder, digests)
        if weights:
            believed += _provide_weights(entry, folder, digests)
        # The table knows the case and the sizes; the repositories of old models lack these files, or err in them.
        config = json.dumps(entry.config.to_dict(), indent=2) + "\n"
        if not (folder / CONFIG_FILE).is_file() or (folder / CONFIG_FILE).read_text(encoding="utf-8") != config:
            _read_tokenizer(entry, folder).save_settings(folder)
            write_text(folder / CONFIG_FILE, config)
    if believed:
        warnings.warn(
            f"{entry.label}: no checksum of {' and '.join(believed)} was known beforehand; their sha256 is now written "
            f"into {folder / ORIGIN_FILE}, and nothing else will be taken for them from now on",
            stacklevel=2,
        )
    return folder


def convert_bin(source: Path, target: Path) -> None:
    """Write the tensors of an old checkpoint of PyTorch, a ``.bin``, as safetensors, under the same names.

    Only tensors are read from the file: nothing in it can run. An output layer that equals the word embeddings is left
    out, for the models take those in its place; every other tensor is kept, also where several share memory.

    Raises:
        UserError: the file cannot be read, is damaged or holds anything but tensors.
    """
    arrays = {name: _to_array(value, name, source) for name, value in _read_bin(source).items()}
    words = [array for name, array in arrays.items() if name.endswith(_WORD_EMBEDDINGS)]
    kept = {}
    for name, array in arrays.items():
        tied = name.endswith(_OUTPUT_LAYERS) and any(np.array_equal(array, one) for one in words)
        if not tied:
            kept[name] = array
    write_tensors(target.parent, kept)


def _read_bin(source: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a ``.bin`` by their names."""
    import torch

    try:
        found = torch.load(source, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"cannot read {source}: {error.strerror or error}; check its permissions") from None
    except Exception as error:  # a damaged file ends in whatever the reader stumbles over, even an AssertionError
        reason = _why_unreadable(error)
        raise UserError(f"{source} is damaged or holds more than tensors ({reason}): get the file again") from None
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise UserError(f"{source} is no table of tensors: give a checkpoint that holds a model's state alone")
    for name in found:
        if not isinstance(name, str):
            raise UserError(f"{source}: the key {name!r} is no name of a tensor: give a checkpoint of a model's state")
    return found


def _why_unreadable(error: Exception) -> str:
    """Say in a line why a ``.bin`` cannot be read.

    PyTorch's own words often advise to set ``weights_only`` to False, which would run what stands in the file.
    """
    text = str(error).strip()
    if isinstance(error, RuntimeError) and text and "weights_only" not in text:
        return text.splitlines()[0]
    return "it is not a plain table of tensors, and nothing else is read"


def _to_array(value: Tensor, name: str, source: Path) -> np.ndarray:
    """Return a tensor, which may be a parameter, a view or of half precision, as an array."""
    try:
        array: np.ndarray = (value.float() if value.is_floating_point() else value).detach().numpy()
    except (RuntimeError, TypeError):
        kind = f"{value.dtype}, {value.layout}, on {value.device}"
        raise UserError(
            f"{source}: the tensor {name} ({kind}) has no array of its kind: save it dense, in float32"
        ) from None
    return array


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from the folder of a model meanwhile; they wait.

    Where there are no such locks (on Windows, on some network drives, in a cache that cannot be written) go on without:
    one process at a time needs none, and of several the one that finds a file just gone ends in an error.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            folder.parent.mkdir(parents=True, exist_ok=True)
            file = held.enter_context(folder.with_name(f"{folder.name}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read_tokenizer(entry: ModelEntry, folder: Path) -> WordPiece | Unigram:
    if entry.kind == "albert":
        return Unigram.from_file(folder / entry.vocabulary)
    return WordPiece.from_file(folder / entry.vocabulary, entry.lowercase)


def _provide_weights(entry: ModelEntry, folder: Path, digests: dict[str, str]) -> list[str]:
    """Have the weights in the folder as safetensors, whole. Returns what :func:`_provide` does."""
    if _is_whole(folder / WEIGHTS_FILE, digests.get(WEIGHTS_FILE, "")):
        return []
    believed = _provide(entry, entry.weights, folder, digests)
    if entry.weights != WEIGHTS_FILE:
        convert_bin(folder / entry.weights, folder / WEIGHTS_FILE)
        digests[WEIGHTS_FILE] = remembered_sha256_of(folder / WEIGHTS_FILE)
        _write_digests(entry, folder, digests)
        (folder / entry.weights).unlink(missing_ok=True)  # where no lock is to be had, another process may have done it
    return believed


def _provide(entry: ModelEntry, name: str, folder: Path, digests: dict[str, str]) -> list[str]:
    """Have a file of the hub in the folder, whole, and its digest written down.

    Returns:
        the file's name if it had to be believed, because no digest was known; otherwise nothing.
    """
    path = folder / name
    wanted = entry.sha256.get(name) or digests.get(name, "")
    if not path.is_file() or (wanted and remembered_sha256_of(path) != wanted):
        _download(entry, name, folder, wanted)
    digest = remembered_sha256_of(path)
    if digests.get(name) != digest:
        digests[name] = digest
        _write_digests(entry, folder, digests)
    return [] if wanted else [name]


def _download(entry: ModelEntry, name: str, folder: Path, sha256: str) -> None:
    """Download a file, or say what to do by hand."""
    hub = os.environ.get("D2LBERT_HUB", DEFAULT_HUB).rstrip("/")
    reason = ""
    if os.environ.get("D2LBERT_OFFLINE") == "1":
        reason = "D2LBERT_OFFLINE=1 forbids the network"
    else:
        url = f"{hub}/{entry.repository}/resolve/{entry.revision}/{name}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            download(url, folder / name, sha256)
        except DownloadError as error:
            reason = str(error)
        except OSError as error:
            reason = f"the cache {folder} cannot be written ({error.strerror or error}), D2LBERT_CACHE may name another"
    if reason:
        raise UserError(
            f"{name} of {entry.label} is not here and cannot be downloaded: {reason}; get {entry.weights} "
            f"({entry.megabytes} MB) and {entry.vocabulary} from {hub}/{entry.repository}/tree/{entry.revision} "
            f"and put them into {folder}"
        )


def _is_whole(path: Path, sha256: str) -> bool:
    """Whether a file is there and has a digest that is written down."""
    return bool(sha256) and path.is_file() and remembered_sha256_of(path) == sha256


def _read_digests(folder: Path) -> dict[str, str]:
    path = folder / ORIGIN_FILE
    if not path.is_file():
        return {}
    found: Any = read_json(path).get("sha256")
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no digests: delete the folder {folder} to begin anew")
    return found


def _write_digests(entry: ModelEntry, folder: Path, digests: dict[str, str]) -> None:
    origin = {"repository": entry.repository, "revision": entry.revision, "sha256": digests}
    write_text(folder / ORIGIN_FILE, json.dumps(origin, indent=2) + "\n")
