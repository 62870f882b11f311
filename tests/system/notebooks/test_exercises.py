"""Coded exercises: each solution passes its check; each stub and each planted bug fails it. No other cell is needed."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from chapter_rules import tags

ROOT = Path(__file__).resolve().parents[3]


def exercises() -> list[tuple[str, str, str, str]]:
    """(name, solution, check, code with the bug or nothing) of every coded exercise."""
    parameters = []
    for path in sorted((ROOT / "chapters").rglob("*.ipynb")):
        solution = None
        bug = ""
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and "bug" in tags(cell):
                bug = cell.source
            elif cell.cell_type == "code" and "solution" in tags(cell):
                solution = cell.source
            elif cell.cell_type == "code" and "check" in tags(cell):
                assert solution is not None, f"{path.stem}: a check without a solution"
                number = sum(name.startswith(f"{path.stem}-") for name, *_ in parameters) + 1
                parameters.append((f"{path.stem}-{number}", solution, cell.source, bug))
                solution, bug = None, ""
        assert not bug, f"{path.stem}: a bug without a check"
    return parameters


def stub(solution: str) -> str:
    """The solution with the body of each function replaced."""

    class Empty(ast.NodeTransformer):
        def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
            node.body = ast.parse("raise NotImplementedError").body
            return node

    return ast.unparse(ast.fix_missing_locations(Empty().visit(ast.parse(solution))))


def run(*sources: str) -> None:
    namespace: dict[str, object] = {"__name__": "exercise"}
    for source in sources:
        exec(compile(source, "exercise", "exec"), namespace)


EXERCISES = exercises()


def test_every_chapter_has_coded_exercises() -> None:
    chapters = {path.stem for path in (ROOT / "chapters").rglob("*.ipynb")}
    deeper = {stem for stem in chapters if stem.startswith("deeper_")}
    assert chapters - deeper == {name.rsplit("-", 1)[0] for name, *_ in EXERCISES} - deeper


@pytest.mark.parametrize(("solution", "check"), [e[1:3] for e in EXERCISES], ids=[e[0] for e in EXERCISES])
def test_solution_passes_and_stub_fails(solution: str, check: str) -> None:
    run(solution, check)
    with pytest.raises(NotImplementedError):
        run(stub(solution), check)


PLANTED = [exercise for exercise in EXERCISES if exercise[3]]


@pytest.mark.parametrize(("check", "bug"), [e[2:] for e in PLANTED], ids=[e[0] for e in PLANTED])
def test_check_finds_the_planted_bug(check: str, bug: str) -> None:
    with pytest.raises((AssertionError, ValueError, IndexError, RuntimeError, TypeError)):
        run(bug, check)
