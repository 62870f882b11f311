"""Processor time until something happens: the help, one prediction, the imports of every chapter.

Each is the user and system time of a fresh process, beside that of ``import torch`` in the same round: the sides take
turns, and the ratio is that within a round. What goes before fills the caches of files and of byte code and is not
counted. A chapter is opened in a kernel, which has loaded IPython before: there the time of its imports, and of
``import torch``, is taken.

    python -m benchmarks.cost.start
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from benchmarks.children import Used, cached_code, used_by
from benchmarks.command_line import command_line
from benchmarks.record import ROOT, Record

BASE = "import torch"
IN_A_KERNEL = "import time, ipykernel.ipkernel\nbegan = time.process_time()\n{}\nprint(time.process_time() - began)"
COMMAND = ["-m", "d2lbert.cli"]
PREDICT = ["predict", "classification", "--model", "minilm-sst2", "--text", "A warm, funny film."]
FILL = ["predict", "fill_mask", "--model", "d2lbert-tiny", "--text", "He was born in [MASK]."]
# Cells that are no part of the chapter as it is read from top to bottom.
ASIDE = {"colab", "mxnet", "checks", "solution", "check", "bug"}


def main() -> None:
    """Measure all and write ``results/cost/start.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="of commands that are counted")
    parser.add_argument("--chapter-rounds", type=int, default=3, help="of chapters that are counted")
    arguments = parser.parse_args()
    record = Record("cost/start", ["torch", "numpy", "matplotlib", "typer", "tokenizers", "d2lbert"])
    commands = {
        "python": ["-c", "pass"],
        "d2lbert --help": [*COMMAND, "--help"],
        "d2lbert data list": [*COMMAND, "data", "list"],
        "d2lbert finetune --help": [*COMMAND, "finetune", "--help"],
        "d2lbert predict": [*COMMAND, *PREDICT],
        "d2lbert predict fill_mask": [*COMMAND, *FILL],
    }
    chapters = {path.stem: imports for path in chapter_files() if (imports := first_imports(path))}
    sides = {BASE: ["-c", BASE], **commands}
    metrics = {
        "commands": measured(sides, [*commands.values()], lambda used: used.seconds, arguments.rounds),
        "chapters": measured(
            {name: ["-c", IN_A_KERNEL.format(code)] for name, code in {BASE: BASE, **chapters}.items()},
            [["-c", "\n".join([BASE, *chapters.values()])]],
            lambda used: float(used.output.split()[-1]),
            arguments.chapter_rounds,
        ),
    }
    for part in ("commands", "chapters"):
        for name, one in metrics[part].items():
            print(
                f"{name}: {one['seconds']['median']:.2f} s, {one['to_import_torch']['median']:.2f} times import torch"
            )
    record.write(metrics, rounds=arguments.rounds, chapter_rounds=arguments.chapter_rounds, threads=1)


def chapter_files() -> list[Path]:
    """Return all chapters, in alphabetical order."""
    return sorted(ROOT.glob("chapters/*/*.ipynb"))


def first_imports(path: Path) -> str:
    """Return the imports of the first cell of a chapter that imports something; those further down wait for their use.

    A chapter that imports nothing gives an empty text.
    """
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code" and not ASIDE & set(cell.metadata.get("tags", [])):
            lines = imports_of(cell.source)
            if lines:
                return lines
    return ""


def imports_of(source: str) -> str:
    """Return the import statements at the top level of a cell, which may hold magic commands as well."""
    found, open_bracket = [], False
    for line in source.splitlines():
        if open_bracket or line.startswith(("import ", "from ")):
            found.append(line)
            open_bracket = (open_bracket or "(" in line) and ")" not in line
    return "\n".join(found)


def measured(
    sides: dict[str, list[str]], before: list[list[str]], seconds_of: Callable[[Used], float], rounds: int
) -> dict[str, Any]:
    """Return the processor time of each side, and its ratio to that of ``import torch`` within a round.

    Args:
        sides: by name, what Python is called with; one of them is ``import torch``.
        before: what runs first, uncounted, and reads every file once.
        seconds_of: the processor time in question, of what a process used.
        rounds: that are counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    with tempfile.TemporaryDirectory() as folder:
        for words in before:
            used_by(words, cached_code(folder))
        for _ in range(rounds):
            for name, words in sides.items():
                seconds[name].append(seconds_of(used_by(words, cached_code(folder))))
    return {
        name: {
            "seconds": in_the_middle(own),
            "to_import_torch": in_the_middle([one / other for one, other in zip(own, seconds[BASE], strict=True)]),
        }
        for name, own in seconds.items()
    }


def in_the_middle(values: list[float]) -> dict[str, Any]:
    """Return the median and the quartiles of some values."""
    lower, _, upper = statistics.quantiles(values, n=4) if len(values) > 1 else 3 * values
    return {"median": statistics.median(values), "quartiles": [lower, upper]}


if __name__ == "__main__":
    main()
