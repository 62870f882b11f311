"""The rules for chapters (CONTRIBUTING.md), as functions that return what is wrong."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
from colab_cell import SOURCE, TAGS

KEPT = {"nbval-check-output", "keep_output"}
# A decimal or a percentage in prose is a result typed by hand, unless it quotes a paper or is part of the method.
_RESULT = re.compile(r"(?<![\w.\-/=])(?:\d+\.\d+|\d+(?:\.\d+)?\s?%)(?!\w|\.\d)")


def prose(notebook: nbformat.NotebookNode) -> list[str]:
    """The text of every Markdown cell."""
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", []))


def form_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """First cells, outputs, lengths of cells."""
    problems = []
    cells = code(notebook)
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        problems.append("the kernel is not python3")
    if not cells or cells[0].source != SOURCE or tags(cells[0]) != set(TAGS):
        problems.append("the first code cell is not the one for Colab (tools/colab_cell.py)")
    if len(cells) < 2 or tags(cells[1]) != {"parameters"}:
        problems.append("the second code cell is not tagged parameters")
    for number, cell in enumerate(cells, start=1):
        if len(cell.source.splitlines()) > 40:
            problems.append(f"code cell {number} has more than 40 lines")
        if cell.outputs and not tags(cell) >= KEPT:
            problems.append(f"code cell {number} keeps an output without the tags {sorted(KEPT)}")
        if tags(cell) >= KEPT and not cell.outputs:
            problems.append(f"code cell {number} is tagged {sorted(KEPT)} but keeps no output")
        if tags(cell) >= KEPT and "notebook.glue(" in cell.source:
            problems.append(f"code cell {number} glues a number: what it keeps would differ from machine to machine")
        if (cell.execution_count is None) == bool(cell.outputs):
            problems.append(f"code cell {number} needs a number if it keeps an output, else none: nbval asks for it")
        problems += [f"code cell {number} never shows the {shown}: it is not the last line" for shown in unseen(cell)]
    return problems


def unseen(cell: nbformat.NotebookNode) -> list[str]:
    """Figures and tables that a cell makes and drops: a notebook shows the value of the last line alone."""
    module = ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", cell.source, flags=re.MULTILINE))
    last = module.body[-1] if module.body else None
    dropped = [node.value for node in ast.walk(module) if isinstance(node, ast.Expr) and node is not last]
    made = [ast.unparse(value.func) for value in dropped if isinstance(value, ast.Call)]
    chart = re.compile(r"plots\.[a-z]|\w+\.figure$")  # not Diagram, whose figure() is what is shown
    return [name for name in made if name == "notebook.table" or chart.match(name)]


def prose_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Title, formats of glued numbers, and results typed by hand."""
    text = "\n".join(prose(notebook))
    titles = re.findall(r"^# .+", text, flags=re.MULTILINE)
    problems = [] if len(titles) == 1 else [f"{len(titles)} titles, not 1"]
    problems += [f"MyST-NB makes a decimal of {found}: end the format with .0f" for found in open_formats(text)]
    return problems + [f"result typed by hand: {found}" for found in typed_results(text)]


def open_formats(text: str) -> list[str]:
    """Glued numbers whose format has separators and no decimals: the page would show 1000 as 1,000.0."""
    found = re.findall(r"\{glue:\w+\}`([^`:]+:[^`]*,[^`]*)`", text)
    return [name for name in found if not re.search(r"\.\d+f$", name)]


def typed_results(text: str) -> list[str]:
    """Decimals and percentages in prose, but for mathematics, code, links, glue and what is quoted with a citation."""
    text = re.sub(r"```.*?```|\$\$.*?\$\$", " ", text, flags=re.DOTALL)
    text = re.sub(r"<details>.*?</details>", " ", text, flags=re.DOTALL)  # worked by hand in a solution
    text = re.sub(r"\{glue:\w+\}`[^`]*`|`[^`]*`|\$[^$]*\$|\]\([^)]*\)", " ", text)
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\|)", text):
        if "{cite" not in paragraph:
            found += _RESULT.findall(paragraph)
    return found


# MathJax would fetch an extension for these, and the site has none: the page would wait for ever.
_EXTENSIONS = re.compile(
    r"\\(boldsymbol|pmb|cancel|color|textcolor|colorbox|bbox|enclose|href|class|style|unicode|verb|ce|bra|ket|toggle)\b"
)


def reference_problems(notebook: nbformat.NotebookNode, path: Path, keys: set[str]) -> list[str]:
    """Links to files that are not there, citations that are not in references.bib, addresses of other machines."""
    problems = []
    text = "\n".join(prose(notebook))
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target and not (path.parent / target).exists():
            problems.append(f"link to {target}, which does not exist")
    for group in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", text):
        problems += [
            f"citation {key.strip()} is not in references.bib" for key in group.split(",") if key.strip() not in keys
        ]
    problems += [f"MathJax here has no \\{name}" for name in _EXTENSIONS.findall(text)]
    everything = text + "\n".join(cell.source for cell in code(notebook))
    problems += [
        f"loads from {found}" for found in re.findall(r"https?://[^\s)]*(?:cdn|jsdelivr|unpkg)[^\s)]*", everything)
    ]
    problems += [f"machine path {found}" for found in re.findall(r"(?<!\w)/(?:work|root|home)/\S+", everything)]
    return problems
