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

# By default csv refuses a field of more than 131,072 characters. A limit on a text's length belongs where the reason
# for it is known.
_LONGEST_FIELD = 2**31 - 1

# What unpacking a damaged file raises. BadGzipFile is an OSError: catch these before it.
DAMAGE = (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError)


def nonblank_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line that is not blank. Errors are those of :func:`lines`."""
    for number, line in lines(path):
        if line and not line.isspace():
            yield number, line


def lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line, without its line end and without a byte order mark.

    Raises:
        UserError: the file is missing, damaged or not UTF-8.
    """
    number = 0
    try:
        with open_binary(path) as stream:
            # A binary file ends a line only at a line feed; text may hold U+2028 and other line ends of str.
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


def archive_texts(path: str | Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the origin and the text of files in a zip archive, in the order of their names.

    The origin, the archive and the file's name, is for error messages.

    Args:
        path: the archive.
        pattern: a regular expression that matches the whole name of each file to read.

    Raises:
        UserError: the archive is missing or damaged, or a file in it is not UTF-8.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if re.fullmatch(pattern, name):
                    yield f"{path}, {name}", archive.read(name).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} holds a file that is not UTF-8; get the archive again") from None
    # A damaged header may name an unknown compression method or ask for a password: a RuntimeError.
    except (zipfile.BadZipFile, RuntimeError, *DAMAGE) as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def csv_rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row of a CSV file, after the number of the row's last line.

    Raises:
        UserError: the file cannot be read (see :func:`lines`) or is not valid CSV.
    """
    csv.field_size_limit(_LONGEST_FIELD)
    # The csv module needs the line ends: a quoted field may contain some.
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
    """Yield the number and the fields of each line that is not blank; TAB separates fields, quotes are literal."""
    return ((number, line.split("\t")) for number, line in nonblank_lines(path))


def count_columns(row: Sequence[str]) -> str:
    """Return "1 column" or "5 columns"."""
    return f"{len(row)} column{'' if len(row) == 1 else 's'}"


def fault(path: str | Path, number: int, what: str, remedy: str) -> UserError:
    """Return the error for a line that cannot be read."""
    return UserError(f"{path}, line {number}: {what}; {remedy}")


def damaged(path: str | Path, error: Exception) -> UserError:
    """Return the error for a packed file that cannot be unpacked."""
    return UserError(f"{path} is damaged ({error}); get the file again")


def find_columns(path: str | Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return the index of each column in a header.

    Args:
        path: the file, for the error message.
        header: the names in the file.
        columns: the names to look for.

    Raises:
        UserError: the header lacks one of the columns.
    """
    names = [name.strip() for name in header]
    for name in columns:
        if name not in names:
            present = ", ".join(repr(existing) for existing in names) or "none"
            raise fault(path, 1, f"no column {name!r} (found: {present})", f"name the columns {' and '.join(columns)}")
    return [names.index(name) for name in columns]


def filled(path: str | Path, number: int, text: str, what: str = "text") -> str:
    """Return a text without the white space around it.

    Raises:
        UserError: the text is empty.
    """
    text = text.strip()
    if not text:
        raise fault(path, number, f"the {what} is empty", "fill it in or remove the line")
    return text


def parse_label(path: str | Path, number: int, label: str, labels: Sequence[str] | None) -> str:
    """Return the name of a label that a file gives by name or by its index in ``labels``, from 0.

    Where a name is itself a number, such as a rating of 1 to 5, every number is a name: an index could be mistaken for
    a label that does not exist.

    Args:
        path, number: file and line, for the error message.
        label: what the file says.
        labels: the names that are allowed; None allows any name.

    Raises:
        UserError: the label is empty or unknown.
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
        known = ", ".join(f"{index} = {name}" for index, name in enumerate(labels))
    raise fault(path, number, f"the label {label[:40]!r} is not one of {known}", "correct the label")


def parse_score(path: str | Path, number: int, score: str) -> float:
    """Return a score as a number.

    Raises:
        UserError: it is not a finite number.
    """
    value = _number(score)
    if not math.isfinite(value):
        raise fault(path, number, f"the score {score[:40]!r} is not a number", "mend the line")
    return value


def _number(text: str) -> float:
    """Return a text as a number; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
