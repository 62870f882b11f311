"""Coded exercises: each solution passes its check, and each stub fails it, without the rest of the notebook."""

from __future__ import annotations

import ast
from pathlib import Path

import nbformat
import pytest
from chapter_rules import tags

ROOT = Path(__file__).resolve().parents[3]


def exercises() -> list[tuple[str, str, str]]:
    """(name, solution, check) of every coded exercise."""
    parameters = []
    for path in sorted((ROOT / "chapters").rglob("*.ipynb")):
        solution = None
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and "solution" in tags(cell):
                solution = cell.source
            elif cell.cell_type == "code" and "check" in tags(cell):
                assert solution is not None, f"{path.stem}: a check without a solution"
                number = sum(name.startswith(f"{path.stem}-") for name, _, _ in parameters) + 1
                parameters.append((f"{path.stem}-{number}", solution, cell.source))
                solution = None
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
    assert chapters == {name.rsplit("-", 1)[0] for name, _, _ in EXERCISES}


@pytest.mark.parametrize(("solution", "check"), [e[1:] for e in EXERCISES], ids=[e[0] for e in EXERCISES])
def test_solution_passes_and_stub_fails(solution: str, check: str) -> None:
    run(solution, check)
    with pytest.raises(NotImplementedError):
        run(stub(solution), check)
