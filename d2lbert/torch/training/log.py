"""What a training run reports as it goes: a progress bar, a CSV file, and events for TensorBoard."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from d2lbert.errors import UserError
from d2lbert.storage.files import write_text


def progress_bar(total_steps: int, step: int, shown: bool) -> tqdm:
    """Return a progress bar on standard error, over ``total_steps`` steps of which ``step`` are done."""
    return tqdm(total=total_steps, initial=step, disable=not shown, file=sys.stderr, unit="step", mininterval=1.0)


def show_speed(bar: tqdm, text: str, tokens_per_second: float) -> None:
    """Advance the bar by one step, and show a text such as the loss, and the speed, after it."""
    bar.update()
    bar.set_postfix_str(f"{text}, {tokens_per_second:,.0f} tokens/s", refresh=False)


def per_second(count: float, seconds: float) -> float:
    """Return a speed; 0 where no time has passed by a clock that is coarse or was set back."""
    return count / seconds if seconds > 0 else 0.0


class TrainingLog:
    """A CSV file with one line for each logged step.

    Args:
        path: of the file. When a run is resumed the file exists already; lines later than ``step`` are dropped from it.
        columns: names of the columns; the first is the step, counted from 1.
        step: how many steps the run has completed.
        events: the folder for TensorBoard, with one curve for each column; None writes no events.

    Raises:
        UserError: ``events`` is given, but TensorBoard is not installed.
    """

    def __init__(self, path: Path, columns: Sequence[str], step: int, events: Path | None = None) -> None:
        self._curves = None if events is None else _writer(events, step)
        rows = []
        if path.is_file():
            lines = path.read_text(encoding="utf-8").splitlines()[1:]
            # A line that a crash cut short is dropped as well.
            rows = [line for line in lines if line.count(",") == len(columns) - 1 and int(line.split(",")[0]) <= step]
        write_text(path, "\n".join([",".join(columns), *rows]) + "\n")
        self._stream = path.open("a", encoding="utf-8", newline="")
        self._rows = csv.DictWriter(self._stream, columns, lineterminator="\n")

    def __enter__(self) -> TrainingLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        if self._curves is not None:
            self._curves.close()

    def write(self, row: dict[str, float]) -> None:
        """Add a line. Columns that the row lacks stay empty."""
        self._rows.writerow(row)
        self._stream.flush()
        if self._curves is not None:
            for name, value in row.items():
                self._curves.add_scalar(name, value, int(row["step"]))
            self._curves.flush()


def _writer(folder: Path, step: int) -> Any:
    """Return TensorBoard's writer. It hides what an earlier run wrote after ``step``."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError("--tensorboard needs the package tensorboard: run pip install tensorboard") from None
    return SummaryWriter(str(folder), purge_step=step + 1)
