"""The commands ``d2lbert data list`` and ``d2lbert data fetch``. The table of data is read when one of them runs."""

from __future__ import annotations

from typing import Annotated

import typer


def list_data() -> None:
    """Show every data set: task, size, licence, and where it would be read from."""
    from d2lbert import data

    for entry in data.describe():
        size = f"{entry['size'] / 1e6:.1f} MB"
        print(f"{entry['name']:20} {size:>9}  {entry['where']:10}  {entry['task']}  [{entry['licence']}]")


def fetch_data(name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Download a data set, check it, and print its folder."""
    from d2lbert import data

    print(data.fetch(name))
