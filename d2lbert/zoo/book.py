"""Models of the book that the installed package leaves out: they come from the book's repository when asked for.

A checkout has them in ``data/``. The package would be half as large again with all of them, and not all licences allow
every use. The table knows the commit and the sha256 of each file, so nothing else is ever taken for them.
"""

from __future__ import annotations

import warnings
from pathlib import Path

from d2lbert.errors import UserError
from d2lbert.storage.download import download
from d2lbert.storage.files import remembered_sha256_of
from d2lbert.storage.places import cache_folder
from d2lbert.storage.receiving import DownloadError
from d2lbert.zoo.table import ModelEntry

REPOSITORY = "https://raw.githubusercontent.com/d2lbert/d2lbert"
_MOST_BYTES = 16_000_000  # of a file; the largest has three million


def book_folder(entry: ModelEntry) -> Path:
    """Return the cache folder of a model of the book, whether it exists or not; each commit has its own."""
    return cache_folder() / "models" / f"{entry.label}-{entry.revision[:8]}"


def is_fetched(entry: ModelEntry) -> bool:
    """Whether all files of a model of the book are in the cache. They are not verified."""
    return all((book_folder(entry) / name).is_file() for name in entry.sha256)


def fetch_from_book(entry: ModelEntry, weights: bool = True) -> Path:
    """Return the cache folder of a model of the book with all files verified; missing files are downloaded.

    What may be done with a model that was downloaded is said in a warning.

    Args:
        entry: the model.
        weights: False for all files except the weights.

    Raises:
        UserError: a file cannot be downloaded, or is not that of the table.
    """
    folder, came = book_folder(entry), False
    for name, digest in entry.sha256.items():
        path = folder / name
        if path.suffix == ".safetensors" and not weights:
            continue
        if path.is_file() and remembered_sha256_of(path) == digest:
            continue
        try:
            download(f"{REPOSITORY}/{entry.revision}/data/{entry.folder}/{name}", path, digest, _MOST_BYTES)
        except DownloadError as error:
            raise UserError(
                f"{entry.label} is not in the installed package and cannot be downloaded: {error}; a checkout of the "
                f"book has it in data/{entry.folder}"
            ) from None
        came = True
    if came:
        warnings.warn(f"{entry.label} comes from the book's repository; its licence: {entry.licence}", stacklevel=2)
    return folder
