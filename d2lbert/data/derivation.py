"""Make a file of a data set from the published original: a part of it, or the same in another wrapping.

The manifest tells how, as a table with the key ``by``. Its other keys are the arguments of the function of that name
below. The digest of what comes out is known, so that a wrong original cannot pass.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_BYTES = 64_000_000  # of an original, and of what is unpacked from it


class NotDerivable(Exception):
    """The original is not what it should be. The message is a clause without a full stop."""


def derive(original: Path, recipe: Mapping[str, Any]) -> bytes:
    """Return the content of the file that a recipe of the manifest makes from an original.

    Raises:
        NotDerivable: the original is damaged or another file.
    """
    arguments = {name: value for name, value in recipe.items() if name != "by"}
    try:
        return RECIPES[recipe["by"]](original, **arguments)
    except (ValueError, KeyError, TypeError, RecursionError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise NotDerivable(f"it is damaged or another file ({type(error).__name__}: {error})") from None


def packed(original: Path) -> bytes:
    """Pack with gzip. The bytes depend on the compressor's version; the content does not."""
    return gzip.compress(original.read_bytes(), compresslevel=9, mtime=0)


def beginning(original: Path, size: int) -> bytes:
    """Return the first ``size`` bytes."""
    with original.open("rb") as stream:
        return stream.read(size)


def member(original: Path, name: str) -> bytes:
    """Return a member of a zip archive."""
    with zipfile.ZipFile(original) as archive:
        if archive.getinfo(name).file_size > MOST_BYTES:
            raise ValueError(f"{name} is larger than {MOST_BYTES:,} bytes")
        return archive.read(name)


def without_rows(original: Path, rows: Sequence[int]) -> bytes:
    """Return a table, one row a line, without some rows; the first row after the header has the number 0."""
    dropped = {row + 1 for row in rows}
    lines = original.read_bytes().split(b"\n")
    return b"\n".join(line for number, line in enumerate(lines) if number not in dropped)


def articles(original: Path, titles: Sequence[str]) -> bytes:
    """Return some articles of a file in SQuAD's format, in its order, as one line of JSON."""
    content = json.loads(original.read_text(encoding="utf-8"))
    kept = [article for article in content["data"] if article["title"] in titles]
    return (json.dumps({"version": content["version"], "data": kept}, ensure_ascii=False) + "\n").encode("utf-8")


RECIPES: dict[str, Callable[..., bytes]] = {
    "packed": packed,
    "beginning": beginning,
    "member": member,
    "without_rows": without_rows,
    "articles": articles,
}


def unpacked_sha256(path: Path) -> str:
    """Return the digest of the content of a file that gzip has packed; empty where it cannot be unpacked.

    The content is read piece by piece, and no more than ``MOST_BYTES`` of it.
    """
    digest = hashlib.sha256()
    try:
        with gzip.open(path) as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
                if stream.tell() > MOST_BYTES:
                    return ""
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return ""
    return digest.hexdigest()
