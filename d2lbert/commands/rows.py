"""Rows that a command prints or writes: JSON lines, or a CSV for a spreadsheet."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from d2lbert.errors import UserError
from d2lbert.storage.files import writable_folder, write_text

ENDINGS = (".jsonl", ".csv")


def note(text: str) -> None:
    """Say on standard error what a command chose by itself."""
    print(f"note: {text}", file=sys.stderr)


def warn(text: str) -> None:
    """Say on standard error what a user should know before trusting a result."""
    print(f"warning: {text}", file=sys.stderr)


def json_line(row: dict[str, Any]) -> str:
    """Return readable JSON; it is escaped only where a text holds half a surrogate pair, which UTF-8 cannot encode.

    Raises:
        UserError: a number is not finite; JSON has none such.
    """
    try:
        line = json.dumps(row, ensure_ascii=False, allow_nan=False)
        return line if line.encode("utf-8", "ignore").decode() == line else json.dumps(row)
    except ValueError:
        raise UserError(
            "the model gives numbers that are not finite: its weights are damaged, take another or train it again"
        ) from None


def readable_row(example: Any, prediction: dict[str, Any]) -> dict[str, Any]:
    """Return what the model read of an example, without what was to be predicted, and then the prediction."""
    fields = {name: value for name, value in dataclasses.asdict(example).items() if value not in (None, "")}
    return {**fields, **prediction}


def check_file_to_write(path: Path) -> None:
    """Check that a new file of rows can be written, before the work and not after it.

    Raises:
        UserError: its ending is unknown, it exists, or its folder cannot be written.
    """
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"--out {path}: the ending says how it is written; call it NAME.jsonl or NAME.csv")
    if path.exists():
        raise UserError(f"--out {path} exists: choose a new file, so that nothing is overwritten")
    writable_folder(path.parent)


def place_of_answers(chosen: Path | None, default: Path, examples: Sequence[Any]) -> Path:
    """Return the file for the answers to labelled examples. Nothing is overwritten but answers to the same examples.

    So a command may be given twice, and two files of examples with one name do not share their answers.

    Args:
        chosen: by the user; None for the default.
        default: where a file of it has something else, a number is added to its name.

    Raises:
        UserError: what the user chose has something else.
    """
    if chosen is not None:
        if chosen.exists() and not _holds_answers(chosen, examples):
            raise UserError(
                f"--predictions {chosen} exists, and not with answers to these examples: choose a new file, so that "
                "nothing is overwritten"
            )
        return chosen
    path, number = default, 1
    # Of a name that no file can have it says no; that the answers cannot be written then costs no score.
    while os.path.lexists(path) and not _holds_answers(path, examples):
        number += 1
        path = default.with_name(f"{default.stem}-{number}{default.suffix}")
    if path != default:
        note(f"{default} is not of these examples: the answers go to {path}")
    return path


def _holds_answers(path: Path, examples: Sequence[Any]) -> bool:
    """Whether a file has a line with an answer for each of these examples, and nothing else."""
    if not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            answered = (json.loads(line)["example"] for line in lines)
            return all(one == _as_read(example) for one, example in zip(answered, examples, strict=True))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # not readable, or none of ours
        return False


def _as_read(example: Any) -> Any:
    """Return the fields of an example as they come back from JSON."""
    return json.loads(json_line(dataclasses.asdict(example)))


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows as JSON lines or CSV, by the path's ending; whole or not at all.

    Raises:
        UserError: the file cannot be written, or a number is not finite.
    """
    lines = [json_line(row) for row in rows]  # for a CSV, too: this looks at every number
    if path.suffix.lower() == ".csv":
        write_text(path, _csv_text([_flat(row) for row in rows]))
    else:
        write_text(path, "\n".join(lines) + "\n")


def _csv_text(rows: Sequence[dict[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode("utf-8", "replace").decode()  # half a surrogate pair becomes a question mark


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose values fit into cells: words between spaces, each probability in a column of its own."""
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if name == "probabilities" and isinstance(value, dict):
            flat["probability"] = max(value.values())
            flat |= {f"probability of {label}": probability for label, probability in value.items()}
        elif name in ("words", "tags"):
            flat[name] = " ".join(value)
        elif isinstance(value, list | tuple | dict):
            flat[name] = json.dumps(value, ensure_ascii=False)
        else:
            flat[name] = value
    return flat
