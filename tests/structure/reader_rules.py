"""The rules for a chapter that its reader builds (CONTRIBUTING.md), as functions that return what is wrong."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import nbformat
from chapter_rules import code, prose, tags
from contents import Place

DEEPER = "deeper_"  # what a first reader may skip: a page at the end of a part
FOLDED = {"hide-input", "hide-cell", "remove-cell", "remove-input"}
KINDS = ("by hand", "predict, then run", "build", "find the bug", "investigate")
_WIDTH = 80
_LINES = 200
_EXERCISE = re.compile(r"^\*\*Exercise (\d+) \(([^)]*)\)", flags=re.MULTILINE)


def visible(cell: nbformat.NotebookNode) -> bool:
    """Whether the page shows the code of a cell before anything is unfolded."""
    return not tags(cell) & FOLDED


def reader_problems(
    notebook: nbformat.NotebookNode, path: Path, root: Path, order: list[Path], here: Place
) -> list[str]:
    """All that is wrong with a chapter, or with a page that a first reader may skip (``deeper_*``)."""
    problems = neighbour_problems(notebook, path, root, here) + width_problems(notebook)
    if path.stem.startswith(DEEPER):
        return problems
    return (
        problems
        + opening_problems(notebook, path, root, order)
        + code_problems(notebook)
        + claim_problems(notebook)
        + size_problems(notebook)
        + question_problems(notebook)
        + exercise_problems(notebook)
    )


def shown_lines(notebook: nbformat.NotebookNode) -> list[str]:
    """The lines of code that the page shows before anything is unfolded."""
    return [line for cell in code(notebook) if visible(cell) for line in cell.source.splitlines()]


def width_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Visible lines of code that a page would cut off."""
    wide = [line for line in shown_lines(notebook) if len(line) > _WIDTH]
    return [f"wider than {_WIDTH} columns: {line.strip()[:50]}" for line in wide]


def code_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """How long the visible code is; what must be folded."""
    problems = []
    lines = len(shown_lines(notebook))
    if lines > _LINES:
        problems.append(f"{lines} visible lines of code, not at most {_LINES}")
    for cell in code(notebook):
        for kind in ("check", "checks", "mxnet", "claims"):
            if kind in tags(cell) and visible(cell):
                problems.append(f"a cell tagged {kind} is not folded")
        imports = re.search(
            r"^\s*(?:import|from) (?:d2lbert\.)?mxnet\b|d2lbert import mxnet", cell.source, re.MULTILINE
        )
        if imports and "mxnet" not in tags(cell) and not tags(cell) & {"solution", "check"}:
            problems.append("a cell imports MXNet and is not tagged mxnet")
    if sum("mxnet" in tags(cell) for cell in code(notebook)) > 1:
        problems.append("more than one cell tagged mxnet")
    if not any("checks" in tags(cell) for cell in code(notebook)):
        problems.append("no cell tagged checks: nothing is compared with the package or with a reference")
    return problems


def claim_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Claims whose sentence is not on the page; a chapter without any."""
    sentences, written = [], [" ".join(text.split()) for text in prose(notebook)]
    for cell in code(notebook):
        tree = ast.parse(re.sub(r"^(\s*)[%!].*", r"\1pass", cell.source, flags=re.MULTILINE))
        claims = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_claim(node)]
        claimed = {id(part) for claim in claims for part in ast.walk(claim.args[0])}
        sentences += [ast.literal_eval(claim.args[0]) for claim in claims]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in claimed:
                written.append(" ".join(node.value.split()))
    page = "\n".join(written)
    problems = [f"claimed but not on the page: {text[:60]}" for text in sentences if " ".join(text.split()) not in page]
    return problems if sentences else ["no notebook.claim: no sentence is held to its numbers"]


def _is_claim(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "claim" and bool(node.args)


def opening_problems(notebook: nbformat.NotebookNode, path: Path, root: Path, order: list[Path]) -> list[str]:
    """What a reader needs, all of it from earlier chapters, and what the reader will be able to do."""
    opening = "\n".join(prose(notebook)[:2])
    needs = re.search(r"\*\*You need[^*]*\*\*:?(.*?)(?:\n\n|\Z)", opening, flags=re.DOTALL)
    problems = [] if re.search(r"\*\*You will be able to", opening) else ["does not say what you will be able to do"]
    if not needs:
        return [*problems, "does not say what you need"]
    for link in re.findall(r"\]\(([^)#]+\.ipynb)", needs[1]):
        other = (path.parent / link).resolve().relative_to(root)
        if other in order and order.index(other) >= order.index(path.relative_to(root)):
            problems.append(f"needs {other}, which comes later")
    return problems


def neighbour_problems(notebook: nbformat.NotebookNode, path: Path, root: Path, here: Place) -> list[str]:
    """The words "last chapter" and "next chapter" are links, and lead where ``_toc.yml`` says."""
    problems = []
    text = "\n".join(prose(notebook))
    for words, other in (("last chapter", here.previous), ("next chapter", here.following)):
        links = re.findall(rf"\[[^\]]*{words}[^\]]*\]\(([^)#]+)", text, flags=re.IGNORECASE)
        if len(links) != len(re.findall(words, text, flags=re.IGNORECASE)):
            problems.append(f"{words!r} is not a link")
        for link in links:
            if other is None or (path.parent / link).resolve() != (root / other).resolve():
                problems.append(f"{words!r} leads to {link}, which it is not")
    return problems


def exercise_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Six to eight exercises of all kinds, in order, each with its solution."""
    text = "\n".join(prose(notebook))
    found = _EXERCISE.findall(text)
    kinds = [kind for _, kind in found]
    problems = [f"an exercise of kind {kind!r}, not one of {', '.join(KINDS)}" for kind in kinds if kind not in KINDS]
    if not 6 <= len(found) <= 8 or [int(number) for number, _ in found] != list(range(1, len(found) + 1)):
        problems.append(f"{len(found)} exercises in a row, not 6 to 8")
    asked = {"by hand or predict, then run": 2, "build": 2, "find the bug": 1, "investigate": 1}
    have = {name: sum(kind in name for kind in kinds) for name in asked}
    problems += [
        f"{have[name]} exercises of kind {name}, not {count}" for name, count in asked.items() if have[name] < count
    ]
    solved = text.count("<details>") + sum("solution" in tags(cell) for cell in code(notebook))
    if solved < len(found):
        problems.append(f"{len(found)} exercises, {solved} solutions")
    bugs = sum("bug" in tags(cell) for cell in code(notebook))
    if bugs != kinds.count("find the bug"):
        problems.append(f"{kinds.count('find the bug')} exercises to find a bug, {bugs} cells tagged bug")
    return problems


def question_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Sections without a question to the reader."""
    sections = re.split(r"^## ", "\n".join(prose(notebook)), flags=re.MULTILINE)[1:]
    named = [(section.splitlines()[0], section) for section in sections]
    free = ("summary", "exercises", "project", "the same in mxnet")
    return [
        f"no question to the reader in {name!r}" for name, text in named if "?" not in text and name.lower() not in free
    ]


def size_problems(notebook: nbformat.NotebookNode) -> list[str]:
    """Words before the exercises, and cells of code that the page shows."""
    problems = []
    text = re.split(r"^## Exercises", "\n".join(prose(notebook)), flags=re.MULTILINE)[0]
    words = len(re.findall(r"[A-Za-z]{2,}|\b[aI]\b", re.sub(r"\$[^$]*\$|<!--.*?-->", "", text)))
    if not 1200 <= words <= 2700:
        problems.append(f"{words} words before the exercises, not 1,200 to 2,700")
    shown = [cell for cell in code(notebook) if visible(cell) and "bug" not in tags(cell)]
    if not 8 <= len(shown) <= 25:
        problems.append(f"{len(shown)} visible code cells, not 8 to 25")
    return problems
