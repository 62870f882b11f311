"""Make the pages "From slide to page": one for each slide deck that the book grew from.

``chapters/decks/<deck>.md`` holds the words of a page and a line that names its table, ``<deck>.toml``. That file has
one ``[[row]]`` for each thing that a slide shows, in the order of the slides:

* ``slide``: the slide's title; ``says``: what it says.
* ``where``: links, each ``part/chapter#heading``.
* ``number``: the slide's number or answer, where it has one; then ``ours`` must be there as well.
* ``ours``: what the book has. ``{topic/run:a.b}`` stands for an entry of ``results/<topic>/<run>.json``, below its
  ``metrics``: 100 times the mean, with the standard deviation where there are several runs;
  ``{topic/run:a.b|.2f}`` is the number itself in that format, ``{topic/run:a.b|ms}`` a rate per second as the
  milliseconds of one. ``{parameters:base}`` counts the encoder of a preset.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import torch

from d2lbert.config import PRESETS
from d2lbert.torch import BertModel
from d2lbert.torch.encoder import count_parameters

ROOT = Path(__file__).resolve().parent.parent
DECKS = ROOT / "chapters" / "decks"
TABLE = re.compile(r"^<!-- table of (\w+\.toml) -->$", flags=re.MULTILINE)
COLUMNS = ("slide, and what it says", "in the book", "the slide's number", "ours")
KEYS = {"slide", "says", "where", "number", "ours"}
_ENTRY = re.compile(r"\{([\w/]+):([^}|]+)(?:\|([^}]+))?\}")


def write_pages(source: Path) -> None:
    """Write every page of ``chapters/decks`` to the same place below ``source``, with its table."""
    folder = source / DECKS.relative_to(ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(DECKS.glob("*.md")):
        (folder / page.name).write_text(page_text(page), encoding="utf-8")


def page_text(page: Path) -> str:
    """Return the page with its table in place of the line that names it."""
    return TABLE.sub(lambda match: table(rows(page.parent / match[1])), page.read_text(encoding="utf-8"))


def rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a deck."""
    found: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["row"]
    return found


def problems(row: dict[str, Any]) -> list[str]:
    """Return what is missing or wrong in a row, its links and results included."""
    found = [f"unknown key {key}" for key in sorted(set(row) - KEYS)]
    found += [f"no {key}" for key in ("slide", "says", "where") if not row.get(key)]
    if row.get("number") and not row.get("ours"):
        found.append("the slide has a number and ours is missing")
    for target in row.get("where", []):
        name, _, heading = target.partition("#")
        if heading not in headings(name):
            found.append(f"{name} has no heading {heading!r}")
    for name, place, _ in _ENTRY.findall(row.get("ours", "")):
        try:
            entry(name, place)
        except (KeyError, TypeError, OSError):
            found.append(f"no entry {name}:{place}")
    return found


@functools.cache
def headings(name: str) -> list[str]:
    """Return title and headings of a chapter or page, given as ``part/name``; none where there is no such file."""
    path = ROOT / "chapters" / name
    if path.with_suffix(".ipynb").is_file():
        cells = nbformat.read(path.with_suffix(".ipynb"), as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    elif path.with_suffix(".md").is_file():
        text = path.with_suffix(".md").read_text(encoding="utf-8")
    else:
        return []
    return re.findall(r"^##? (.+?)\s*$", text, flags=re.MULTILINE)


def entry(name: str, place: str) -> Any:
    """Return the entry of a stored result, or the number of parameters of a preset."""
    if name == "parameters":
        with torch.device("meta"):  # shapes without memory
            return count_parameters(BertModel(PRESETS[place]))
    found = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))["metrics"]
    for key in place.split("."):
        found = found[key]
    return found


def table(deck: list[dict[str, Any]]) -> str:
    """Return the Markdown table of a deck."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for row in deck:
        links = "; ".join(_link(target) for target in row["where"])
        ours = _ENTRY.sub(lambda match: _shown(entry(match[1], match[2]), match[3]), row.get("ours", ""))
        cells = [f"**{row['slide']}** {row['says']}", links, row.get("number", "–"), ours or "–"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _link(target: str) -> str:
    name, _, heading = target.partition("#")
    suffix = ".ipynb" if (ROOT / "chapters" / f"{name}.ipynb").is_file() else ".md"
    title = headings(name)[0]
    return f"[{title}, *{heading}*](../{name}{suffix}#{slug(heading)})"


def slug(heading: str) -> str:
    """Return the anchor that MyST and GitHub give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _shown(found: Any, form: str | None) -> str:
    if form == "ms":
        return f"{1000 / found:.1f} ms"
    if form:
        return format(found, form)
    if isinstance(found, dict):
        spread = f" ± {100 * found['std']:.1f}" if found["n"] > 1 else ""
        return f"{100 * found['mean']:.1f}{spread}"
    return f"{found:,}" if isinstance(found, int) else f"{100 * found:.1f}"
