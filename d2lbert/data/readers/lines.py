"""The lines of text files, plain or packed, and the one-line errors that name file, line and fault."""

from __future__ import annotations

import csv
import fnmatch
import gzip
import io
import lzma
import math
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from d2lbert.errors import UserError

# A packed file of two megabytes may unpack to one line of gigabytes: nothing may grow beyond these, in bytes. A text
# as long as a line may be is cut to what a model reads, but a file that is one text is read as a whole.
LONGEST_LINE = 2**26
LARGEST_WHOLE = 2**29

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
        UserError: the file is missing, damaged or not UTF-8, or has a line of more than 64 MiB.
    """
    number = 0
    try:
        with open_binary(path) as stream:
            # A binary file ends a line only at a line feed; text may hold U+2028 and other line ends of str.
            for number, raw in enumerate(iter(lambda: stream.readline(LONGEST_LINE + 1), b""), start=1):
                if len(raw) > LONGEST_LINE:
                    raise fault(path, number, f"longer than {LONGEST_LINE >> 20} MiB", "is it text? break the line")
                text = raw.decode("utf-8").rstrip("\r\n")
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeDecodeError:
        raise fault(path, number, "not UTF-8", "save the file as UTF-8") from None
    except DAMAGE as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def whole_bytes(path: str | Path) -> bytes:
    """Return the content of a file that is one text; ``.xz`` and ``.gz`` are unpacked.

    Raises:
        UserError: the file is missing or damaged, or holds more than 512 MiB.
    """
    try:
        with open_binary(path) as stream:
            content = stream.read(LARGEST_WHOLE + 1)
    except DAMAGE as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None
    if len(content) > LARGEST_WHOLE:
        raise UserError(f"{path} holds more than {LARGEST_WHOLE >> 20} MiB; divide it into several files")
    return content


def file_ending(path: str | Path) -> str:
    """Return the ending of a file's name in lower case, such as ``.csv``, without that of its packing."""
    endings = [ending.lower() for ending in Path(path).suffixes if ending.lower() not in (".gz", ".xz")]
    return endings[-1] if endings else ""


def open_binary(path: str | Path) -> io.BufferedIOBase:
    """Open a file; ``.xz`` and ``.gz`` are unpacked on the way."""
    if Path(path).suffix == ".xz":
        return lzma.open(path, "rb")
    if Path(path).suffix == ".gz":
        return gzip.open(path, "rb")
    return Path(path).open("rb")


def texts_inside(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Yield the origin and the text of a file, or of files in a zip archive.

    Args:
        path: a file; or an archive and, below it, a name with ``*``, ``?`` and ``[...]`` that the files in it match, as
            in ``brown.zip/brown/ca*``.
        encoding: of the text.

    Raises:
        UserError: the file or the archive is missing or damaged, no file in it matches, or one has another encoding.
    """
    archive = next((parent for parent in Path(path).parents if parent.suffix == ".zip"), None)
    if archive is None:
        yield str(path), _decoded(whole_bytes(path), path, encoding)
        return
    pattern, found = Path(path).relative_to(archive).as_posix(), False
    for origin, text in archive_texts(archive, fnmatch.translate(pattern), encoding):
        found = True
        yield origin, text
    if not found:
        raise UserError(f"{archive} holds no {pattern}; get the archive again")


def _decoded(content: bytes, path: str | Path, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        raise UserError(f"{path} is not {encoding.upper()}; get the file again") from None


def archive_texts(path: str | Path, pattern: str, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
    """Yield the origin and the text of files in a zip archive, in the order of their names.

    The origin, the archive and the file's name, is for error messages.

    Args:
        path: the archive.
        pattern: a regular expression that matches the whole name of each file to read.
        encoding: of the files.

    Raises:
        UserError: the archive is missing or damaged, or a file in it has another encoding.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if re.fullmatch(pattern, name):
                    yield f"{path}, {name}", archive.read(name).decode(encoding)
    except UnicodeDecodeError:
        raise UserError(f"{path} holds a file that is not {encoding.upper()}; get the archive again") from None
    # A damaged header may name an unknown compression method or ask for a password: a RuntimeError.
    except (zipfile.BadZipFile, RuntimeError, *DAMAGE) as error:
        raise damaged(path, error) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the path") from None


def csv_rows(path: str | Path, separator: str = ",") -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each row of a CSV file, after the number of the row's last line.

    Args:
        path: the file.
        separator: the character between two fields.

    Raises:
        UserError: the file cannot be read (see :func:`lines`) or is not valid CSV.
    """
    csv.field_size_limit(LONGEST_LINE)
    # The csv module needs the line ends: a quoted field may contain some.
    rows = csv.reader((line + "\n" for _, line in lines(path)), delimiter=separator, strict=True)
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
    """Return the error for a line that cannot be read: of a Parquet file a row, of a JSON list an item."""
    unit = {".parquet": "row", ".json": "item"}.get(file_ending(path), "line")
    return UserError(f"{path}, {unit} {number}: {what}; {remedy}")


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
        UserError: the header lacks one of the columns, or has it twice.
    """
    indices = []
    for name in columns:
        index = find_column(path, header, name)
        if index is None:
            present = ", ".join(repr(existing.strip()[:40]) for existing in header) or "none"
            raise fault(path, 1, f"no column {name!r} (found: {present})", f"name the columns {' and '.join(columns)}")
        indices.append(index)
    return indices


def find_column(path: str | Path, header: Sequence[str], name: str) -> int | None:
    """Return the index of a column in a header; None where there is none.

    A column that is written as ``name`` is taken before one that differs in upper and lower case.

    Raises:
        UserError: two columns have the name.
    """
    for fold in (str, str.casefold):
        found = [index for index, existing in enumerate(header) if fold(existing.strip()) == fold(name)]
        if len(found) > 1:
            raise fault(path, 1, f"{len(found)} columns are called {name!r}", "rename or remove one of them")
        if found:
            return found[0]
    return None


def filled(path: str | Path, number: int, text: str, what: str = "text") -> str:
    """Return a text without the white space around it.

    Raises:
        UserError: the text is empty, or holds only what no tokenizer keeps, such as a zero-width space.
    """
    text = text.strip()
    if not is_visible(text):
        raise fault(path, number, f"the {what} is empty", "fill it in or remove the line")
    return text


def is_visible(text: str) -> bool:
    """Whether a text holds a character that is neither white space nor a control or format character."""
    return any(unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc", "Cf") for character in text)


def parse_index(text: str, below: int) -> int | None:
    """Return a text of decimal digits as an index from 0; None where it is none, or not below ``below``."""
    # Python refuses to convert thousands of digits; no index has twenty.
    if not text.isdecimal() or len(text) > 19 or int(text) >= below:
        return None
    return int(text)


def parse_label(
    path: str | Path, number: int, label: str, labels: Sequence[str] | None, numbered: Sequence[str] = ()
) -> str:
    """Return the name of a label.

    A number is a name like any other, for nobody knows in which order a file counts. Three things only give it a
    meaning: the format of a data set, whose numbers are fixed; the labels negative and positive, which all count alike;
    and a model whose labels have no other names than ``LABEL_0``, ``LABEL_1`` and so on.

    Args:
        path, number: file and line, for the error message.
        label: what the file says.
        labels: the names that are allowed; None allows any name.
        numbered: what 0, 1 and so on mean in the file; empty where that is not known.

    Raises:
        UserError: the label is empty or unknown.
    """
    label = label.strip()
    if labels is None:
        return filled(path, number, label, "label")
    if label in labels:
        return label
    unnamed = all(name == f"LABEL_{index}" for index, name in enumerate(labels))
    meanings = labels if unnamed else numbered
    index = parse_index(label, len(meanings))
    if index is not None and meanings[index] in labels:
        return meanings[index]
    said, known, remedy = repr(label[:40]), ", ".join(labels), "correct the label"
    if index is not None:
        said, remedy = f"{said} ({meanings[index]})", "write these names"
    elif set(meanings) == set(labels):
        known = ", ".join(f"{index} = {name}" for index, name in enumerate(meanings))
    elif is_number(label) and not any(map(is_number, labels)):
        remedy = "write these names: a number has a meaning in the format of a data set alone, such as --format sst2"
    raise fault(path, number, f"the label {said} is not one of {known}", remedy)


def parse_relation(
    path: str | Path, number: int, label: str, labels: Sequence[str] | None, numbered: Sequence[str] = ()
) -> str:
    """Return the label of two texts, as :func:`parse_label` does, but no score: pairs may have either.

    Raises:
        UserError: the label is empty or unknown; or any name is allowed, and it is a number with a fraction.
    """
    name = parse_label(path, number, label, labels, numbered)
    if labels is None and is_number(name) and not float(name).is_integer():
        remedy = "name its column with --score-column, or write labels that are no numbers"
        raise fault(path, number, f"the label {name[:40]!r} is a number with a fraction, as scores are", remedy)
    return name


def parse_score(path: str | Path, number: int, score: str) -> float:
    """Return a score as a number.

    Raises:
        UserError: it is not a finite number.
    """
    value = _number(score)
    if not math.isfinite(value):
        raise fault(path, number, f"the score {score[:40]!r} is not a number", "mend the line")
    return value


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    return math.isfinite(_number(text))


def _number(text: str) -> float:
    """Return a text as a number; NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
