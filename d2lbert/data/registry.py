"""Find data sets and read them: always runs, never lies.

The look-up order is ``$D2LBERT_DATA`` (a folder laid out as ``<dataset>/<file>``), the user's cache (``$D2LBERT_CACHE``
or the system's cache folder), the network (unless ``$D2LBERT_OFFLINE`` is 1). Every file's sha256 is checked before it
is used. Where none of these has the set, ``load`` and ``read`` use the small sample that was written for this book and
say so in a :class:`SampleDataWarning`; :func:`is_sample` tells a notebook which data it used.
"""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from d2lbert.data.derivation import MOST_BYTES, NotDerivable, derive, unpacked_sha256
from d2lbert.data.manifest import DataFile, DataSet, data_set, read_manifest
from d2lbert.data.readers import corpora, formats, sentences, tags, words
from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.download import DownloadError, download
from d2lbert.storage.files import remembered_sha256_of
from d2lbert.storage.places import cache_folder, folder_named_by, home


class SampleDataWarning(UserWarning):
    """A data set was not available; a small sample written for this book took its place."""


class NotAvailable(UserError):
    """A data set is in no folder and could not be downloaded. ``reason`` is a clause that says why not."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class _Source:
    """The folder of a set's files, the files of each split, and for a sample the reason why the real set is missing."""

    folder: Path
    splits: dict[str, tuple[str, ...]]
    missing: str = ""


_opened: dict[str, str] = {}  # in the order in which this process asked for them


def names() -> list[str]:
    """Return the names of all data sets."""
    return sorted(read_manifest(home()))


def info(name: str) -> DataSet:
    """Return the manifest's entry of a data set: task, licence, size, files, splits.

    Raises:
        UserError: the name is unknown.
    """
    return data_set(name)


def fetch(name: str) -> Path:
    """Return the folder of a data set's files, all present and verified; download them if necessary.

    Raises:
        UserError: the name is unknown, or a file in ``$D2LBERT_DATA`` is damaged.
        NotAvailable: the set is in no folder and cannot be downloaded. The message says where to get it, how large it
            is, and which folder to put it into by hand.
    """
    entry = data_set(name)
    mirror = _mirror_folder(entry)
    folder = mirror if mirror is not None and _complete(mirror, entry) else cache_folder() / entry.folder
    for file in entry.files:
        if _intact(folder / file.name, file):
            continue
        if folder == mirror:
            raise UserError(f"{folder / file.name} is damaged (wrong sha256); get the file again or unset D2LBERT_DATA")
        _download(entry, file, folder)
    _opened[name] = "full"
    return folder


def load(name: str, split: str) -> list[Any]:
    """Return all examples of a split ("train", "dev" or "test") as a list.

    Falls back on the sample, with a :class:`SampleDataWarning`.

    Raises:
        UserError: the name or the split is unknown, there is no reader, or neither the set nor a sample is available.
    """
    return list(_examples(name, split))


def read(name: str, split: str) -> Iterator[Any]:
    """Return an iterator over the examples of a split, one at a time in memory. Errors are those of :func:`load`."""
    return _examples(name, split)


def is_sample(name: str) -> bool:
    """Whether ``load(name, ...)`` returns the sample and not the real data. Tries the network as ``load`` does.

    Raises:
        UserError: as :func:`fetch`; :class:`NotAvailable` only where there is no sample either.
    """
    return bool(_find_source(data_set(name)).missing)


def opened() -> dict[str, str]:
    """Return the data sets that this process has read or fetched: name -> ``"full"`` or ``"sample"``."""
    return dict(_opened)


def describe() -> list[dict[str, Any]]:
    """Return a row for each data set: name, task, size in bytes, licence, and where it is. Uses no network."""
    rows = []
    for name in names():
        entry = data_set(name)
        row = {"name": name, "task": entry.task, "size": entry.size, "licence": entry.licence, "where": _where(entry)}
        rows.append(row)
    return rows


def _examples(name: str, split: str) -> Iterator[Any]:
    entry = data_set(name)
    if not entry.format:
        raise UserError(f"data set {name} has no reader; use fetch({name!r}) for the folder of its files")
    if split not in entry.splits:
        raise unknown_name(f"split of {name}", split, entry.splits)
    source = _find_source(entry)
    if source.missing:
        # The warning points at the caller of load or read. A page may show it, so it names no folder of this machine.
        warnings.warn(_sample_notice(entry, source.missing), SampleDataWarning, stacklevel=3)
    examples = _read_files(entry.format, [source.folder / file for file in source.splits[split]])
    if split != "test" and entry.cut:
        return _cut(examples, entry, split)
    if split != "test" and entry.tail:
        return _cut_tail(list(examples), entry.tail, split)
    return examples


def _cut(examples: Iterator[Any], entry: DataSet, split: str) -> Iterator[Any]:
    """Split the examples of one file: the last of every ``cut`` examples is dev, the others are train.

    Where the entry names a field, consecutive examples with the same value in it count as one.
    """
    groups: Iterator[list[Any]] = ([example] for example in examples)
    if entry.cut_by:
        groups = (list(group) for _, group in itertools.groupby(examples, operator.attrgetter(entry.cut_by)))
    for number, group in enumerate(groups, start=1):
        if (number % entry.cut == 0) == (split == "dev"):
            yield from group


def _cut_tail(examples: list[Any], parts: int, split: str) -> Iterator[Any]:
    """Split the examples of one file: the last of ``parts`` equal parts is dev, the rest before it is train."""
    begin = len(examples) - len(examples) // parts
    return iter(examples[begin:] if split == "dev" else examples[:begin])


def _find_source(entry: DataSet) -> _Source:
    try:
        return _Source(fetch(entry.name), entry.splits)
    except NotAvailable as error:
        if not entry.samples:
            raise
        _opened[entry.name] = "sample"
        return _Source(home() / "samples" / entry.folder, entry.samples, missing=error.reason)


def _sample_notice(entry: DataSet, reason: str) -> str:
    remedies = [f"set D2LBERT_DATA to a folder that has {entry.folder}/"]
    if all(file.url for file in entry.files):
        remedies.insert(0, f"run 'd2lbert data fetch {entry.name}' with a network")
    notice = (
        f"{entry.name}: a small SAMPLE written for this book takes the place of the real data set ({reason}); "
        f"to get the real one, {' or '.join(remedies)}"
    )
    # Where a file has no address, the manifest's note says whence it comes.
    return f"{notice}. {entry.note}" if entry.note and len(remedies) == 1 else notice


def _read_files(format: str, paths: list[Path]) -> Iterator[Any]:
    if format == "wic":  # a file of texts and a file of answers
        return words.words_in_context(paths[0], paths[1])
    if format == "parallel":
        return corpora.translations(paths[0], paths[1])
    reader = _READERS[format]
    return (example for path in paths for example in reader(path))


_READERS: dict[str, Any] = {
    **formats.READERS["pair"],
    **formats.READERS["tagging"],
    **formats.READERS["multiple_choice"],
    **formats.READERS["question_answering"],
    **formats.READERS["classification"],  # last: a named set in "glue-tsv" holds single sentences
    "paragraphs": corpora.paragraphs,
    "analogies": words.analogies,
    "word-pairs": words.word_pairs,
    "blimp": corpora.minimal_pairs,
    "brown": tags.brown,
    "brown-universal": tags.brown_universal,
    "topics": sentences.topics,
    "trec": sentences.trec,
    "trec-fine": sentences.trec_fine,
}


def _mirror_folder(entry: DataSet) -> Path | None:
    root = folder_named_by("D2LBERT_DATA")
    if root is None:
        return None
    try:
        is_folder = root.is_dir()
    except OSError as error:  # a folder above it forbids the look, or the path is too long
        raise UserError(f"D2LBERT_DATA names {str(root)[:200]}: {error.strerror}; correct or unset it") from None
    if not is_folder:
        raise UserError(f"D2LBERT_DATA names {root}, which is not a folder; correct or unset it")
    return root / entry.folder


def _complete(folder: Path, entry: DataSet) -> bool:
    return all((folder / file.name).is_file() for file in entry.files)


def _intact(path: Path, file: DataFile) -> bool:
    try:
        if path.stat().st_size == file.size and remembered_sha256_of(path) == file.sha256:
            return True
        return bool(file.unpacked_sha256) and unpacked_sha256(path) == file.unpacked_sha256
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; check its permissions") from None


def _download(entry: DataSet, file: DataFile, folder: Path) -> None:
    if not file.url:
        raise _not_available(entry, file, "it has no public address")
    try:
        if not file.derived:
            download(file.url, folder / file.name, file.sha256, file.size)
        else:
            digest = "" if file.unpacked_sha256 else file.sha256  # where it is packed, its content settles
            download(file.url, folder / file.name, digest, MOST_BYTES, lambda path: _derive(path, file))
    except DownloadError as error:
        raise _not_available(entry, file, str(error)) from None


def _derive(path: Path, file: DataFile) -> None:
    """Turn an original that came into the file that is made from it.

    Raises:
        DownloadError: the original is another one.
    """
    try:
        path.write_bytes(derive(path, file.derived))
    except NotDerivable as error:
        raise DownloadError(f"{file.name} cannot be made from {file.url}: {error}") from None
    if not _intact(path, file):
        raise DownloadError(f"what was made from {file.url} has not the known sha256 of {file.name}")


def _not_available(entry: DataSet, file: DataFile, reason: str) -> NotAvailable:
    folder = (folder_named_by("D2LBERT_DATA") or cache_folder()) / entry.folder
    note = f"see d2lbert.data.info({entry.name!r}).note,"
    origin = f"{entry.source}, {note}" if not file.url else f"{file.url}, {note}" if file.derived else file.url
    whole = f"all of {entry.name}: {len(entry.files)} files, {_megabytes(entry.size)}"
    return NotAvailable(
        f"{entry.name}/{file.name} is not here and cannot be downloaded: {reason}; "
        f"get it ({_megabytes(file.size)}; {whole}) from {origin} and put it into {folder}",
        reason,
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def _where(entry: DataSet) -> str:
    mirror = _mirror_folder(entry)
    if mirror is not None and _complete(mirror, entry):
        return str(mirror)
    cached = cache_folder() / entry.folder
    if _complete(cached, entry):
        return str(cached)
    if all(file.url for file in entry.files):
        return "network"
    return "sample" if entry.samples else "nowhere"
