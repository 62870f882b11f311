"""The front page: its routes take the hours that it says."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from contents import chapters
from effort import exercise_count, hours, reading_minutes
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[2]
ROUTES = re.findall(
    r"^\| \*\*(.+?)\*\*.*?\| (.+) \| ([\d.]+) \|$", (ROOT / "index.md").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.mark.parametrize(("name", "way", "said"), ROUTES, ids=[name for name, *_ in ROUTES])
def test_a_route_takes_as_long_as_it_says(name: str, way: str, said: str) -> None:
    paths = re.findall(r"\]\((chapters/\S+\.ipynb)\)", way)
    whole = not paths
    if whole:
        paths = [str(path) for path in chapters(ROOT) if not path.stem.startswith("deeper_")]
    notebooks = [nbformat.read(ROOT / path, as_version=4) for path in paths]
    assert float(said) == hours(notebooks, exercises=whole), f"{name}: write the new number into index.md"


def test_there_are_three_routes() -> None:
    assert [name for name, *_ in ROUTES] == ["Read in an evening", "Build in a month", "The workshop of the talks"]


def test_effort_counts_what_a_reader_reads() -> None:
    prose = new_markdown_cell("word " * 1500 + "\n$$ x = 1 $$\n<!-- not this -->")  # 10 minutes and a half
    code = new_code_cell("\n".join(["x = 1"] * 60))  # 5 minutes
    folded = new_code_cell("\n".join(["x = 1"] * 600), metadata={"tags": ["hide-input"]})
    exercises = new_markdown_cell("## Exercises\n\n**Exercise 1 (by hand).** " + "word " * 1500)
    after = new_markdown_cell("**Exercise 2 (build).** " + "word " * 1500)
    notebook = new_notebook(cells=[prose, code, folded, exercises, after])
    assert reading_minutes(notebook) == 15
    assert exercise_count(notebook) == 2
    assert hours([notebook] * 4, exercises=False) == 1
    assert hours([notebook] * 4, exercises=True) == 3
