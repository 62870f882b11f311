"""The lines of text files, plain or packed, and the one-line errors that name file, line and fault."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from d2lbert.errors import UserError

# csv refuses a field of more than 131,072 characters unless told otherwise. Whoever limits a text's length does it
# where he can say why.
_LONGEST_FIELD = 2**31 - 1

# What unpacking a damaged file raises. BadGzipFile is an OSError: catch these before it.
DAMAGE = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError)


def filled_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that holds more than white space."""
    for number, line in lines(path):
        if line and not line.isspace():
            yield number, line


def lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line, without its end and without a byte order mark.

    Raises:
        UserError: the file is missing, damaged or not UTF-8.
    """
    number = 0
    try:
        with open_binary(path) as stream:
            # A binary file ends a line at a line feed alone; text may hold U+2028 and other ends that str knows.
            for number, raw in enumerate(stream, start=1):
                text = raw.decode("utf-8").rstrip("\r\n")
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError:
        raise fault(path, number, "not UTF-8", "save the file as UTF-8") from None
    except DAMAGE as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def open_binary(path: str | Path) -> io.BufferedIOBase:
    """Open a file; ``.xz`` and ``.gz`` are unpacked on the way."""
    if Path(path).suffix == ".xz":
        return lzma.open(path, "rb")
    if Path(path).suffix == ".gz":
        return gzip.open(path, "rb")
    return Path(path).open("rb")


def archive_texts(path: str | Path, wanted: str) -> Iterator[tuple[str, str]]:
    """Yield, of a zip archive, where each wanted file is, for errors, and its text; in the order of the names.

    Args:
        wanted: a regular expression that fits the whole name of such a file.

    Raises:
        UserError: the archive is missing or damaged, or a file in it is not UTF-8.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if re.fullmatch(wanted, name):
                    yield f"{path}, {name}", archive.read(name).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} holds a file that is not UTF-8; get the archive again") from None
    # A damaged header asks for methods of packing or for passwords that nobody has: a RuntimeError.
    except (zipfile.BadZipFile, RuntimeError, *DAMAGE) as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of its last line and the fields of each row of a CSV file."""
    csv.field_size_limit(_LONGEST_FIELD)
    # The csv module wants the line ends that it splits at: a quoted field may hold some.
    rows = csv.reader((line + "\n" for _, line in lines(path)), strict=True)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise fault(path, rows.line_num, f"not valid CSV: {error}", "check the quotes") from None
        if row:
            yield rows.line_num, row


def tab_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each filled line; fields end at a TAB, quotes mean nothing special."""
    return ((number, line.split("\t")) for number, line in filled_lines(path))


def count_columns(row: Sequence[str]) -> str:
    """Return "1 column" or "5 columns"."""
    return f"{len(row)} column{'' if len(row) == 1 else 's'}"


def fault(path: str | Path, number: int, what: str, remedy: str) -> UserError:
    """Return the error for a line that cannot be read."""
    return UserError(f"{path}, line {number}: {what}; {remedy}")


def damaged(path: str | Path, error: Exception) -> UserError:
    """Return the error for a packed file that cannot be unpacked."""
    return UserError(f"{path} is damaged ({error}); get the file again")


def find_columns(path: str | Path, header: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the places of the wanted names in a header.

    Raises:
        UserError: one of them is not there.
    """
    names = [name.strip() for name in header]
    for name in wanted:
        if name not in names:
            found = ", ".join(repr(other) for other in names) or "none"
            raise fault(path, 1, f"no column {name!r} (found: {found})", f"name the columns {' and '.join(wanted)}")
    return [names.index(name) for name in wanted]


def filled(path: str | Path, number: int, text: str, what: str = "text") -> str:
    """Return a text without the white space around it; refuse an empty one."""
    text = text.strip()
    if not text:
        raise fault(path, number, f"the {what} is empty", "fill it in or remove the line")
    return text


def known_label(path: str | Path, number: int, label: str, labels: Sequence[str] | None) -> str:
    """Return a label by its name, or by its place in ``labels``, counted from 0; None takes any name.

    Where a name is itself a number, such as a rating of 1 to 5, every number is a name: a place would be mistaken for
    a label that is not there.
    """
    label = label.strip()
    if labels is None:
        return filled(path, number, label, "label")
    if label in labels:
        return label
    if any(math.isfinite(_number(name)) for name in labels):
        known = ", ".join(labels)
    elif label.isdecimal() and int(label) < len(labels):
        return labels[int(label)]
    else:
        known = ", ".join(f"{place} = {name}" for place, name in enumerate(labels))
    raise fault(path, number, f"the label {label[:40]!r} is not one of {known}", "correct the label")


def known_score(path: str | Path, number: int, score: str) -> float:
    """Return a score, a finite number."""
    value = _number(score)
    if not math.isfinite(value):
        raise fault(path, number, f"the score {score[:40]!r} is not a number", "mend the line")
    return value


def _number(text: str) -> float:
    """Return the number that a text is; not-a-number where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
