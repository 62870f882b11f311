"""The manifest: the data sets, their files, their licences, and where they come from.

``data/manifest.toml`` holds it; ``data/samples`` beside it holds small stand-ins that were written for this book.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError, unknown_name
from d2lbert.storage.places import home


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file of a data set.

    Fields:
        name: its name in the data set's folder.
        url: where it is published, or the original that it is derived from, pinned to a commit; empty where there is no
            such address.
        sha256: the digest of its bytes, in hexadecimal; empty where it is not known.
        size: in bytes; 0 where it is not known.
        derived: how it is made from the original, see :mod:`d2lbert.data.derivation`; empty for the original itself.
        unpacked_sha256: of a file that is packed here, the digest of its content, which settles whether it is right:
            another version of gzip may pack the same content into other bytes. Empty for other files.
    """

    name: str
    url: str
    sha256: str
    size: int
    derived: Mapping[str, Any] = field(default_factory=dict)
    unpacked_sha256: str = ""


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set.

    Fields:
        name: the name that ``load`` takes.
        folder: the folder of its files, below ``$D2LBERT_DATA`` and below the cache.
        task: what it is for.
        licence: as its authors state it.
        language: the code of the language of its texts; of a translation that of the source.
        citation: its key in ``references.bib``.
        source: where it is described or published.
        note: how to get derived files, and pitfalls.
        format: the name of its reader; empty where there is none yet.
        files: all its files.
        splits: the files of each split, in the order in which they are read.
        samples: the same for the stand-in, relative to ``data/samples/<folder>``; empty where there is none.
        cut: where train and dev are one file, every ``cut``-th example is dev and the others are train; 0 where each
            split has files of its own.
        tail: the same where neighbours must stay together: the file is divided into ``tail`` equal parts, and the last
            one is dev; 0 where it is not divided.
        cut_by: a field of the examples; the cut does not separate those with the same value in it, such as the
            questions about one article. Empty where each example stands alone.
    """

    name: str
    folder: str
    task: str
    licence: str
    citation: str
    source: str
    note: str
    format: str
    files: tuple[DataFile, ...]
    splits: dict[str, tuple[str, ...]]
    samples: dict[str, tuple[str, ...]]
    cut: int = 0
    tail: int = 0
    cut_by: str = ""
    language: str = "en"

    @property
    def size(self) -> int:
        """The size of all files together, in bytes."""
        return sum(file.size for file in self.files)


def read_manifest(folder: Path) -> dict[str, DataSet]:
    """Return the entries of ``manifest.toml`` in ``folder``, by name.

    Raises:
        UserError: the file cannot be read or is not valid TOML.
    """
    return _read(folder / "manifest.toml")


def data_set(name: str) -> DataSet:
    """Return the entry of one data set.

    Raises:
        UserError: the name is unknown; the message suggests similar names.
    """
    entries = read_manifest(home())
    if name not in entries:
        raise unknown_name("data set", name, entries)
    return entries[name]


@functools.cache
def _read(path: Path) -> dict[str, DataSet]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}; install d2lbert again") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}; restore the file") from None
    return {name: _entry(name, table) for name, table in tables.items()}


def _entry(name: str, table: dict[str, Any]) -> DataSet:
    return DataSet(
        name=name,
        folder=table["folder"],
        task=table["task"],
        licence=table["licence"],
        citation=table["citation"],
        source=table["source"],
        note=table.get("note", ""),
        format=table.get("format", ""),
        files=tuple(DataFile(**file) for file in table["files"]),
        splits=_splits(table.get("splits", {})),
        samples=_splits(table.get("samples", {})),
        cut=table.get("cut", 0),
        tail=table.get("tail", 0),
        cut_by=table.get("cut_by", ""),
        language=table.get("language", "en"),
    )


def _splits(table: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {split: tuple(files) for split, files in table.items()}
