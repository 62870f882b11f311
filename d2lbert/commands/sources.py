"""Several models on a command line, each under a name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from d2lbert.errors import UserError
from d2lbert.zoo.folders import local_folder


def named_sources(given: Sequence[str]) -> dict[str, str]:
    """Return name -> source. The name of a folder is its last part.

    Raises:
        UserError: two models have one name.
    """
    sources: dict[str, str] = {}
    for one in given:
        name, equals, source = one.partition("=")
        if not equals or local_folder(one):
            folder = local_folder(one)
            name, source = (Path(folder).resolve().name if folder else one), one
        if not name or name in sources:
            raise UserError(f"--model {one}: the name {name!r} is empty or given twice; write NAME=FOLDER")
        sources[name] = source
    return sources
