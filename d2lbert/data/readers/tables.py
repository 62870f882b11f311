"""Tables: CSV, TSV, JSON lines, a JSON list of objects, and Parquet, as rows under a header."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from d2lbert.config.settings import Settings, setting
from d2lbert.data.readers.json_items import json_items
from d2lbert.data.readers.lines import (
    count_columns,
    csv_rows,
    fault,
    find_column,
    nonblank_lines,
    tab_rows,
)
from d2lbert.errors import UserError

FORMATS = ("csv", "tsv", "jsonl", "json", "parquet")
_SEPARATORS = (",", ";", "\t", "|")
_SEPARATOR_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


@dataclass(frozen=True)
class Columns(Settings):
    """What a user says about the columns of a table. Where a field is empty, the task's own names are looked for."""

    kind: ClassVar[str] = "columns"

    text_column: str = setting("", "of a table: the text; the words, the premise, or the text to ask about")
    pair_column: str = setting("", "the second text; the question, or the choices")
    label_column: str = setting("", "the label; the tags, or the answer")
    score_column: str = setting("", "of pairs, instead of a label: the score to learn, any numbers, such as 0 to 5")
    separator: str = setting("", "between columns of a CSV, such as ; or tab; by default found in its first line")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_column and self.score_column:
            raise UserError("--label-column beside --score-column: give one of them, for a label or for a score")

    @property
    def given(self) -> bool:
        """Whether the user said anything."""
        return self != UNNAMED


UNNAMED = Columns()


class _Missing:
    """What an object lacks that others of its file have; unlike null, which says that there is nothing."""

    def __bool__(self) -> bool:
        return False


MISSING = _Missing()


@dataclass(frozen=True)
class Table:
    """Rows under a header.

    Fields:
        path: of the file, for messages.
        header: the names of the columns.
        rows: the number of each row (of its line, item or row in the file) and its values, which may be too few or too
            many (see :meth:`check`). What a JSON object lacks is ``MISSING``, what it has as null is None.
        lines: whether the names stand in a line of their own, the first.
    """

    path: str | Path
    header: tuple[str, ...]
    rows: Iterator[tuple[int, list[Any]]]
    lines: bool = False

    def find(self, names: Sequence[str], given: str, *options: str) -> int:
        """Return the index of a column: the one that the user gave, else the first of ``names`` that is there.

        Args:
            names: what the column may be called, in any case.
            given: what the user calls it; empty where nothing was said.
            options: how the user can say it, for the message.

        Raises:
            UserError: there is no such column, or it is there twice.
        """
        index = self.find_if_there((given,) if given else names)
        if index is None:
            present = ", ".join(repr(name[:40]) for name in self.header) or "none"
            wanted = repr(given) if given else " or ".join(map(repr, names[:2]))
            remedy = f"name the column with {' or '.join(options)}"
            if self.lines and not given:
                remedy += ", or put a line of names above this one if it is an example"
            raise fault(self.path, 1, f"no column {wanted} (found: {present})", remedy)
        return index

    def find_if_there(self, names: Sequence[str]) -> int | None:
        """Return the index of the first of the named columns that is there; None where there is none."""
        found = (find_column(self.path, self.header, name) for name in names)
        return next((index for index in found if index is not None), None)

    def check(self, number: int, row: Sequence[Any]) -> None:
        """Check that a row has one value for each column.

        Raises:
            UserError: it has fewer or more.
        """
        if len(row) != len(self.header):
            what = f"{count_columns(row)} where the header has {len(self.header)}"
            raise fault(self.path, number, what, "mend the line: a text with the separator in it stands in quotes")


def read_table(path: str | Path, format: str, separator: str = "", headed: bool = True) -> Table:
    """Open a table.

    Args:
        path: the file.
        format: one of ``FORMATS``. ``"csv"``: quotes as in a spreadsheet; ``"tsv"``: TAB, quotes are literal;
            ``"jsonl"``: a JSON object on each line; ``"json"``: a list of objects; ``"parquet"``: needs pyarrow.
        separator: between the columns of a CSV or TSV; by default the one of comma, semicolon, TAB and ``|`` that the
            header has most of, and in a TSV the TAB.
        headed: whether the first row of a TSV is the header. If not, the columns are called ``text`` and ``label``.

    Raises:
        UserError: the file is missing, damaged or of another format; pyarrow is not installed; the separator is not
            one character. A damaged line raises when the rows come to it, in a file of JSON at once.
    """
    if format == "jsonl":
        return _of_objects(path, lambda: _json_lines(path))
    if format == "json":
        return _of_objects(path, lambda: _json_items(path))
    if format == "parquet":
        return _parquet(path)
    character = parse_separator(separator) or ("\t" if format == "tsv" else find_separator(path))
    rows = tab_rows(path) if (format, character) == ("tsv", "\t") else csv_rows(path, character)
    if not headed:
        first = next(rows, (1, [""]))
        names = ("text", "label")[: len(first[1])]
        return Table(path, (*names, *("" for _ in first[1][2:])), itertools.chain([first], rows))
    _, header = next(rows, (1, []))
    return Table(path, tuple(name.strip() for name in header), rows, lines=True)


def parse_separator(separator: str) -> str:
    """Return the character that a user means by a separator such as ``;`` or ``tab``; empty for an empty text.

    Raises:
        UserError: it is no single character.
    """
    character = _SEPARATOR_NAMES.get(separator.lower(), separator)
    if len(character) > 1 or character in ('"', "\n", "\r"):
        raise UserError(f"the separator {separator!r} is not one character: give one such as ; or the word tab")
    return character


def find_separator(path: str | Path) -> str:
    """Return the separator that the first line of a CSV has most of outside quotes; a comma where it has none."""
    _, line = next(nonblank_lines(path), (1, ""))
    unquoted = "".join(line.split('"')[::2])
    return max(_SEPARATORS, key=unquoted.count)


def _of_objects(path: str | Path, objects: Callable[[], Iterable[tuple[int, dict[str, Any]]]]) -> Table:
    """Return a table of JSON objects, which are read twice. Its header has the names of all; one may lack some."""
    header = tuple(dict.fromkeys(name for _, row in objects() for name in row))
    return Table(path, header, ((number, [row.get(name, MISSING) for name in header]) for number, row in objects()))


def _json_lines(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in nonblank_lines(path):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise fault(path, number, f"not valid JSON ({error})", "write one JSON object on each line") from None
        yield number, _as_object(path, number, value)


def _json_items(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    no_list = " holds no list of objects; write [{...}, {...}], or one object on each line"
    for number, value in enumerate(json_items(path, no_list), start=1):
        yield number, _as_object(path, number, value)


def _as_object(path: str | Path, number: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise fault(path, number, f"a {type(value).__name__} where an object is wanted", 'write {"text": ...}')
    return value


def _parquet(path: str | Path) -> Table:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError("Parquet needs pyarrow: run pip install 'd2lbert[parquet]'") from None
    try:
        file = ParquetFile(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise UserError(f"cannot read {path}: {reason}; check the path") from None
    except ArrowException as error:
        raise UserError(f"{path} is not a Parquet file ({error}); get the file again") from None

    def rows() -> Iterator[tuple[int, list[Any]]]:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=1000):
                for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    number += 1
                    yield number, list(values)
        except (ArrowException, OSError) as error:
            raise UserError(f"{path} is damaged ({error}); get the file again") from None

    return Table(path, tuple(file.schema_arrow.names), rows())
