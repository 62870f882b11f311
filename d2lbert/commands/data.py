"""The commands ``d2lbert data list`` and ``d2lbert data fetch``."""

from __future__ import annotations

from typing import Annotated

import typer

from d2lbert import data


def list_data() -> None:
    """Show every data set: task, size, licence, and where it would be read from."""
    for entry in data.describe():
        size = f"{entry['size'] / 1e6:.1f} MB"
        print(f"{entry['name']:20} {size:>9}  {entry['where']:10}  {entry['task']}  [{entry['licence']}]")


def fetch_data(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Download a data set, check it, and print its folder."""
    print(data.fetch(name))
