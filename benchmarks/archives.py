"""Published archives: downloaded once, compared with the digest that is known of them, and a file taken out of them."""

from __future__ import annotations

import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from d2lbert import UserError
from d2lbert.data.readers.lines import DAMAGE
from d2lbert.storage.download import DownloadError, download
from d2lbert.storage.files import atomic, sha256_of, write_text


@dataclass(frozen=True)
class Archive:
    """A published file: where it is, and the sha256 of its bytes (empty where its publishers let nobody know)."""

    url: str
    sha256: str = ""

    @property
    def name(self) -> str:
        """The name that the file has on disk."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Member:
    """A file to read: a whole archive, or a member of a zip.

    Fields:
        archive: what is downloaded.
        path: of the member; empty for the whole file.
        columns: where it is not 0, lines with another number of columns are left out; the published file has some.
    """

    archive: Archive
    path: str = ""
    columns: int = 0


def get(archive: Archive, folder: Path) -> tuple[Path, str, bool]:
    """Return a file, its sha256 and whether it is the published one; it is downloaded unless the folder has it.

    A file that the folder had before is taken as it is: a user may have it from elsewhere.

    Raises:
        UserError: it is not to be had.
    """
    path = folder / archive.name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            download(archive.url, path, archive.sha256)
        except DownloadError as error:
            raise UserError(f"{archive.name} cannot be had: {error}; put {archive.url} into {folder}") from None
    digest = sha256_of(path)
    return path, digest, digest == archive.sha256 or not archive.sha256


def unpacked(member: Member, folder: Path) -> Path:
    """Return the file to read, taken out of its archive and rid of broken lines.

    Raises:
        UserError: it is not to be had, or the archive is damaged or has no such member.
    """
    path, _, _ = get(member.archive, folder)
    if member.path:
        path = _taken_out(path, member.path, folder)
    if member.columns:
        whole = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")  # a text may hold other line ends
        complete = [line for line in whole if line.count("\t") == member.columns - 1]
        print(f"{path.name}: {len(whole) - len(complete)} lines without {member.columns} columns left out")
        path = path.with_name(f"whole-{path.name}")
        write_text(path, "\n".join(complete) + "\n")
    return path


def _taken_out(source: Path, member: str, folder: Path) -> Path:
    path = folder / member.replace("/", "-")  # one flat name: no member can leave the folder
    try:
        with (
            zipfile.ZipFile(source) as archive,
            archive.open(member) as packed,
            atomic(path) as unfinished,
            unfinished.open("wb") as target,
        ):
            shutil.copyfileobj(packed, target)
    except (zipfile.BadZipFile, KeyError, RuntimeError, *DAMAGE) as error:
        raise UserError(f"{source} is damaged or has no {member} ({error}): delete it and try again") from None
    return path
