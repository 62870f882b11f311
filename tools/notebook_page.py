"""Make a page of the site from an executed notebook.

It gets the map on top, the names of folds, boxes about toy data, the scripts of figures to play with, demonstrations of
BERT where the chapter asks for them, the quiz, and at its end the way to the reference of what it uses.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import nbformat
from browser_demo import fill_demos
from chapter_names import names_in
from contents import Place, deck_path, place, title
from effort import exercise_count, reading_minutes
from quizzes import quiz_cell, read_quiz
from reference_areas import reference_cell

# What a folded cell is called, by its tag; the first tag that a cell has counts.
FOLDS = {
    "colab": "Setting up",
    "solution": "Show the solution",
    "check": "Check your answer",
    "checks": "Checks",
    "claims": "What the sentences above are held to",
    "mxnet": "The same in MXNet",
    "hide-input": "Show the code",
    "hide-cell": "Show the code",
}
# A figure to play with (d2lbert.plots.Interactive); its script is site/extra/figures/NAME.js.
_PLAYED = re.compile(r"<d2l-([a-z-]+)>")
_EXERCISES = re.compile(r"^## Exercises$", flags=re.MULTILINE)
_TOY = re.compile(r"^Toy data\. (.+)$", flags=re.MULTILINE)


def make_page(executed: Path, path: Path, root: Path, demos: dict[str, str]) -> nbformat.NotebookNode:
    """Return the page of the notebook ``root / path``, whose executed copy lies at ``executed``.

    Args:
        executed: the copy.
        path: of the notebook, relative to the root.
        root: of the checkout.
        demos: the demonstrations that a page may ask for, see ``browser_demo``.
    """
    up = "../" * (len(path.parts) - 1)
    notebook = nbformat.read(executed, as_version=4)
    effort = _effort(notebook)  # of what the author wrote, without what is added here
    for cell in notebook.cells:
        if cell.cell_type == "code":
            _name_fold(cell)
            cell.outputs = [shown for output in cell.outputs for shown in toy_boxes(output)]
            for output in cell.outputs:
                _add_scripts(output, up)
        elif cell.cell_type == "markdown":
            cell.source = fill_demos(cell.source, demos, up)
    title = next(number for number, cell in enumerate(notebook.cells) if cell.cell_type == "markdown")
    notebook.cells.insert(title + 1, nbformat.v4.new_markdown_cell(_map(place(root, path), path, root, effort, up)))
    _insert_quiz(notebook, path, root, up)
    if reference := reference_cell(names_in(notebook)):
        notebook.cells.append(nbformat.v4.new_markdown_cell(reference))
    return notebook


def _name_fold(cell: nbformat.NotebookNode) -> None:
    tags = cell.metadata.get("tags", [])
    name = next((name for tag, name in FOLDS.items() if tag in tags), None)
    if name:
        cell.metadata["mystnb"] = {"code_prompt_show": name, "code_prompt_hide": f"Hide: {name}"}


def toy_boxes(output: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """Return the output, with every line about toy data as a box."""
    if output.output_type != "stream" or output.name != "stderr" or not _TOY.search(output.text):
        return [output]
    text = "\n\n".join(dict.fromkeys(_TOY.findall(output.text)))  # train and dev say the same
    box: Any = {"text/markdown": f":::{{admonition}} Toy data\n:class: toy\n{text}\n:::", "text/plain": text}
    rest = _TOY.sub("", output.text).strip()
    others = [nbformat.v4.new_output("stream", name="stderr", text=rest)] if rest else []
    return [nbformat.v4.new_output("display_data", data=box), *others]


def _add_scripts(output: nbformat.NotebookNode, up: str) -> None:
    """Load the script of each figure to play with, on the pages that have one and nowhere else."""
    markup = output.get("data", {}).get("text/html", "")
    for name in dict.fromkeys(_PLAYED.findall(markup)):
        output.data["text/html"] += f'<script type="module" src="{up}figures/{name}.js"></script>'


def _insert_quiz(notebook: nbformat.NotebookNode, path: Path, root: Path, up: str) -> None:
    """Put the chapter's quiz, if it has one, before its exercises."""
    bank = root / "chapters" / "quizzes" / f"{path.stem}.yaml"
    if not bank.is_file():
        return
    quiz = quiz_cell(path.stem, read_quiz(bank), f"{up}quiz/quiz.js")
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _EXERCISES.sub(lambda found: f"{quiz}\n\n{found[0]}", cell.source)


def _effort(notebook: nbformat.NotebookNode) -> str:
    """Return what a page takes a reader, as a sentence."""
    count = exercise_count(notebook)
    exercises = f", then {count} exercises" if count else ""
    return f"About {reading_minutes(notebook)} minutes to read{exercises}."


def _map(here: Place, path: Path, root: Path, effort: str, up: str) -> str:
    parts = " → ".join(f"**{part}**" if part == here.part else part for part in here.parts)
    neighbours = []
    for name, other in (("Last", here.previous), ("Next", here.following)):
        if other:
            neighbours.append(
                f"{name}: [{title(root / other)}]({Path(os.path.relpath(other, path.parent)).as_posix()})"
            )
    slides = [f'<a href="{up}{deck}">Slides</a>'] if (deck := deck_path(path)) else []
    line = " · ".join([effort, *neighbours, *slides])
    return f":::{{admonition}} Where we are\n:class: book-map\n{parts}\n\n{line}\n:::"
