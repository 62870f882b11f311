"""How long a chapter takes a reader: its words, lines of code and formulas, and its exercises."""

from __future__ import annotations

import re

import nbformat

WORDS = 150  # a minute, of prose that explains
LINES = 12  # a minute, of code on the page
FORMULAS = 2  # a minute, of those on a line of their own
EXERCISE = 15  # minutes for one
_FOLDED = {"hide-input", "hide-cell", "remove-cell"}


def reading_minutes(notebook: nbformat.NotebookNode) -> int:
    """Return the minutes to read a chapter without its exercises, to the next five."""
    words = lines = formulas = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text, *exercises = re.split(r"^## Exercises$", cell.source, flags=re.MULTILINE)
            formulas += len(re.findall(r"\$\$.+?\$\$", text, flags=re.DOTALL))
            words += len(re.sub(r"\$\$.+?\$\$|<!--.*?-->", " ", text, flags=re.DOTALL).split())
            if exercises:
                break
        elif not _FOLDED & set(cell.metadata.get("tags", [])):
            lines += len(cell.source.splitlines())
    return 5 * max(1, round((words / WORDS + lines / LINES + formulas / FORMULAS) / 5))


def exercise_count(notebook: nbformat.NotebookNode) -> int:
    """Return the number of a chapter's exercises."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return len(re.findall(r"^\*\*Exercise \d+", text, flags=re.MULTILINE))


def hours(notebooks: list[nbformat.NotebookNode], *, exercises: bool) -> float:
    """Return the hours for some chapters, to the next half, with or without their exercises."""
    minutes = sum(map(reading_minutes, notebooks))
    if exercises:
        minutes += EXERCISE * sum(map(exercise_count, notebooks))
    return round(minutes / 30) / 2
