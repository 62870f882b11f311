"""What each chapter took: gathered from the copies that ``make book`` has run, which say so under their titles.

The copies may come from another machine, such as one with a GPU: ``metrics`` says where they ran. All must come from
one machine and one commit: run ``make clean book`` first.

    make clean book && python -m benchmarks.site.chapters
    python -m benchmarks.site.chapters --executed copies/chapters    # of another machine
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat

from benchmarks.command_line import command_line
from benchmarks.record import ROOT, Record

BAND = re.compile(
    r"On (?P<date>\S+), commit (?P<commit>\w+), in \*\*(?P<seconds>\d+) s\*\* with at most "
    r"\*\*(?P<gibibytes>[\d.]+) GiB\*\* of memory, on (?P<cores>\d+) cores of (?P<processor>.+), "
    r"accelerator: (?P<accelerator>.+?)\. Python (?P<python>\S+), torch (?P<torch>\S+), "
)
WHERE = ("commit", "cores", "processor", "accelerator", "python", "torch")


def band_of(path: Path) -> dict[str, str]:
    """Return what an executed copy says of its run.

    Raises:
        SystemExit: it says nothing.
    """
    for cell in nbformat.read(path, as_version=4).cells:
        found = BAND.search(cell.source) if cell.cell_type == "markdown" else None
        if found:
            return found.groupdict()
    raise SystemExit(f"{path.name} does not say how it was run: make it with make book")


def gather(bands: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return where the chapters ran and what each took.

    Args:
        bands: of each chapter, by its name.

    Raises:
        SystemExit: they did not run on one machine, at one commit.
    """
    first, *others = bands.values()
    for key in WHERE:
        if any(other[key] != first[key] for other in others):
            raise SystemExit(f"the copies were not made together: they have more than one {key}")
    took = {name: {"seconds": int(one["seconds"]), "gibibytes": float(one["gibibytes"])} for name, one in bands.items()}
    dates = sorted({one["date"] for one in bands.values()})
    return {"dates": dates, **{key: first[key] for key in WHERE}, "chapters": took}


def missing(names: Iterable[str]) -> list[str]:
    """Return the chapters of the book that are not among these."""
    have = set(names)
    return sorted(path.stem for path in (ROOT / "chapters").rglob("*.ipynb") if path.stem not in have)


def main() -> None:
    """Gather, and write ``results/site/chapters.json``."""
    parser = command_line(__doc__)
    parser.add_argument("--executed", type=Path, default=ROOT / "_build" / "executed" / "chapters")
    options = parser.parse_args()
    record = Record("site/chapters", ["d2lbert"])
    copies = sorted(options.executed.rglob("*.ipynb"))
    if not copies:
        raise SystemExit(f"no executed chapters in {options.executed}: run make book")
    found = gather({path.stem: band_of(path) for path in copies})
    found["missing"] = missing(found["chapters"])
    seconds = sum(one["seconds"] for one in found["chapters"].values())
    print(f"{len(copies)} chapters on {found['accelerator']}, {seconds} s together; missing: {found['missing']}")
    record.write(found)


if __name__ == "__main__":
    main()
