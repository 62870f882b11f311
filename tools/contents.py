"""The table of contents: which chapters there are, in which order, and where one stands among them."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
import yaml


@dataclass(frozen=True)
class Place:
    """Where a notebook stands in the book.

    Fields:
        part: the caption of its part.
        parts: the captions of all parts that hold notebooks, in order.
        previous, following: the notebooks before and after it, relative to the root; None at the ends. A page
            ``deeper_<topic>`` may be skipped, so it is the neighbour of deeper pages alone.
    """

    part: str
    parts: list[str]
    previous: Path | None
    following: Path | None


def chapters(root: Path) -> list[Path]:
    """Return the notebooks of the table of contents, in order, relative to the root."""
    return [path for _, path in _notebooks(root)]


def place(root: Path, path: Path) -> Place:
    """Return where the notebook at ``root / path`` stands."""
    found = _notebooks(root)
    order = [notebook for _, notebook in found if _is_deeper(path) or not _is_deeper(notebook)]
    number = order.index(path)
    return Place(
        part=next(part for part, notebook in found if notebook == path),
        parts=list(dict.fromkeys(part for part, _ in found)),
        previous=order[number - 1] if number else None,
        following=order[number + 1] if number + 1 < len(order) else None,
    )


def deck_path(path: Path) -> str | None:
    """Return where on the site the slides of a chapter lie; a page that may be skipped has none."""
    return None if _is_deeper(path) else f"slides/{path.stem}.html"


@functools.cache
def title(path: Path) -> str:
    """Return the title of a notebook: its first heading."""
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown")
    return re.findall(r"^# (.+)$", text, flags=re.MULTILINE)[0]


def _is_deeper(path: Path) -> bool:
    return path.stem.startswith("deeper_")


def _notebooks(root: Path) -> list[tuple[str, Path]]:
    contents = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    files = [
        (part["caption"], Path(f"{page['file']}.ipynb")) for part in contents["parts"] for page in part["chapters"]
    ]
    return [(part, path) for part, path in files if (root / path).is_file()]
