"""What a training run reports as it goes: a CSV file, and curves where somebody draws them."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text


class TrainingLog:
    """A CSV file with one line for each logged step.

    Args:
        path: of the file. When a run is resumed the file exists already; lines later than ``step`` are dropped from it.
        columns: names of the columns; the first is the step, counted from 1.
        step: how many steps the run has completed.
        curves: a writer such as TensorBoard's, which draws a curve of each column; None draws none.

    Fields:
        lacks_step: the file was there, but not the line of ``step``: the run was stopped before it could write it.

    Raises:
        UserError: the file exists and is no log with these columns, or cannot be written.
    """

    def __init__(self, path: Path, columns: Sequence[str], step: int, curves: Any = None) -> None:
        self._path = path
        self._curves = curves
        lines = _lines(path, columns) if path.is_file() else None
        rows = [line for number, line in lines or [] if number <= step]
        self.lacks_step = lines is not None and step not in [number for number, _ in lines]
        write_text(path, "\n".join([",".join(columns), *rows]) + "\n")
        self._stream = path.open("a", encoding="utf-8", newline="")
        self._rows = csv.DictWriter(self._stream, columns, lineterminator="\n")

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # every line was flushed, or its error was raised
            self._stream.close()
        if self._curves is not None:
            self._curves.close()

    def write(self, row: dict[str, float]) -> None:
        """Add a line. Columns that the row lacks stay empty.

        Raises:
            UserError: the disk is full.
        """
        try:
            self._rows.writerow(row)
            self._stream.flush()
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"cannot write {self._path}: {reason}; free space, then go on with --resume") from None
        if self._curves is not None:
            for name, value in row.items():
                self._curves.add_scalar(name, value, int(row["step"]))
            self._curves.flush()


def _lines(path: Path, columns: Sequence[str]) -> list[tuple[int, str]]:
    """Return the lines of a log with their steps, without a last one that a crash cut short.

    Raises:
        UserError: it is no log with these columns. What is not understood is not overwritten.
    """
    remedy = "move it elsewhere, or restore it, and go on with --resume"
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is not UTF-8 text: {remedy}") from None
    text = text.rstrip("\0")  # what a power cut may leave in place of the last lines
    header, *lines = text.splitlines() or [""]
    if header != ",".join(columns):
        raise UserError(f"{path} has other columns than the log of this run: {remedy}")
    if not text.endswith("\n"):
        lines = lines[:-1]
    for number, line in enumerate(lines, start=2):
        if line.count(",") != len(columns) - 1 or not line.partition(",")[0].isdecimal():
            raise UserError(f"{path}, line {number}, is no line of a log: {remedy}")
    return [(int(line.partition(",")[0]), line) for line in lines]
