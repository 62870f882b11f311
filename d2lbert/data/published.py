"""Numbers that others published, from ``data/published.toml``: one place for all tables of chapters and benchmarks."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass

from d2lbert.errors import unknown_name
from d2lbert.storage.places import home

Value = float | int | str


@dataclass(frozen=True, slots=True)
class Board:
    """A published table.

    Fields:
        title: what it is about.
        about: what is scored, and where the numbers are from.
        citation: the keys of its sources in ``references.bib``.
        columns: the names of the numbers of a row.
        systems: the name of a row -> its numbers, in the order of the columns; an empty text where there is none.
    """

    title: str
    about: str
    citation: tuple[str, ...]
    columns: tuple[str, ...]
    systems: dict[str, tuple[Value, ...]]

    def value(self, system: str, column: str) -> Value:
        """Return one number.

        Raises:
            UserError: there is no such system or column.
        """
        if system not in self.systems:
            raise unknown_name("system", system, self.systems)
        if column not in self.columns:
            raise unknown_name("column", column, self.columns)
        return self.systems[system][self.columns.index(column)]

    def rows(self) -> list[dict[str, Value]]:
        """Return the table as rows for :func:`d2lbert.notebook.table`."""
        rows: list[dict[str, Value]] = []
        for system, values in self.systems.items():
            rows.append({"system": system, **dict(zip(self.columns, values, strict=True))})
        return rows


def published(name: str) -> Board:
    """Return a published table, such as ``"glue"``, ``"gluonnlp"`` or ``"swag"``.

    Raises:
        UserError: there is no such table.
    """
    boards = _boards()
    if name not in boards:
        raise unknown_name("published table", name, boards)
    return boards[name]


@functools.cache
def _boards() -> dict[str, Board]:
    content = tomllib.loads((home() / "published.toml").read_text(encoding="utf-8"))
    return {
        name: Board(
            board["title"],
            board["about"],
            tuple(board["citation"]),
            tuple(board["columns"]),
            {system: tuple(values) for system, values in board["rows"].items()},
        )
        for name, board in content.items()
    }
