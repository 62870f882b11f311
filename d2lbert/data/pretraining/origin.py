"""What a folder of shards was made from: its index keeps it, so that a run never goes on with another corpus unnoticed.

The record holds no path: the files may move, and the folder of shards, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from d2lbert.data.pretraining.shards import ORIGIN, TokenShards
from d2lbert.errors import UserError
from d2lbert.storage.files import sha256_of


def origin_of(files: Sequence[Path], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record for the index of the shards.

    Args:
        files: of the corpus, in its order. Each is read once, some two seconds a gigabyte.
        options: name of an option of the command -> its value, as JSON; all that the shards depend on.

    Raises:
        UserError: a file cannot be read.
    """
    return {"files": [{**_status(file), "sha256": digest_of(file)} for file in files], "options": dict(options)}


def check_origin(shards: TokenShards, files: Sequence[Path], options: Mapping[str, Any]) -> None:
    """Check that shards were made from these files with these options; arguments as in :func:`origin_of`.

    A file whose inode, size and time of change are those of the record is not read again.

    Raises:
        UserError: they were made from others, and which; or their index does not tell.
    """
    remedy = f"give what it was, or remove {shards.folder} to prepare the corpus anew"
    before = shards.index.get(ORIGIN)
    if not isinstance(before, dict) or not {"files", "options"} <= before.keys():
        raise UserError(
            f"{shards.folder} does not tell what it was made from: give --corpus {shards.folder} to go on with it, "
            "or remove it to prepare the corpus anew"
        )
    for name in {**before["options"], **options}:
        was, now = before["options"].get(name), options.get(name)
        if was != now:
            raise UserError(f"{shards.folder} was prepared with {name} {was}, now it is {now}: {remedy}")
    if len(before["files"]) != len(files):
        counts = f"{len(before['files'])} files, now there are {len(files)}"
        raise UserError(f"{shards.folder} was prepared from {counts}: {remedy}")
    for number, (was, file) in enumerate(zip(before["files"], files, strict=True), start=1):
        now = _status(file)
        if any(was[name] != now[name] for name in ("inode", "bytes", "modified")) and was["sha256"] != digest_of(file):
            difference = f"from {was['name']} of {was['bytes']:,} bytes, now it is {file} of {now['bytes']:,} bytes"
            raise UserError(
                f"{shards.folder}, file {number} of the corpus: prepared {difference}, another text: {remedy}"
            )


def _status(file: Path) -> dict[str, Any]:
    found = file.stat()
    return {"name": file.name, "bytes": found.st_size, "inode": found.st_ino, "modified": found.st_mtime_ns}


def digest_of(file: Path) -> str:
    """Return the sha256 of a file.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return sha256_of(file)
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}; check the path") from None
