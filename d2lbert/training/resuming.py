"""The checkpoints of a fine-tuning run in either edition: its settings beside its state, and whether they are the same.

What the state is, and how it lies in files, is the edition's own.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from d2lbert.storage import checkpoints
from d2lbert.storage.files import read_json, write_text
from d2lbert.training.run import check_same_run

_SETTINGS_FILE = "settings.json"


def write_checkpoint(
    folder: str | Path, step: int, settings: dict[str, Any], write: Callable[[Path], None], keep: int
) -> None:
    """Write a checkpoint: a state, and the settings that belong to it.

    Args:
        folder: of all checkpoints of the run; made if it does not exist.
        step: how far the run has come.
        settings: what must be the same when the run is resumed, as JSON values.
        write: writes the state into a folder.
        keep: how many of the newest checkpoints to keep.

    Raises:
        UserError: the disk is full or the folder cannot be written. The older checkpoints are unchanged.
    """

    def write_both(target: Path) -> None:
        write(target)
        write_text(target / _SETTINGS_FILE, json.dumps(settings, indent=2) + "\n")

    checkpoints.save(Path(folder), step, write_both, keep)


@contextlib.contextmanager
def newest_checkpoint(folder: str | Path, settings: dict[str, Any]) -> Iterator[Path | None]:
    """Yield the folder of the newest undamaged checkpoint; None if there is no checkpoint.

    The state is read inside the ``with``: what is missing there or does not fit the run ends in one line.

    Args:
        folder: of all checkpoints of the run.
        settings: as for :func:`write_checkpoint`.

    Raises:
        UserError: all checkpoints are damaged, they belong to a run with other settings, or the state does not fit.
    """
    path = checkpoints.newest(Path(folder))
    if path is None:
        yield None
        return
    check_same_run(folder, read_json(path / _SETTINGS_FILE), settings)
    with checkpoints.restoring(path):
        yield path
