"""Copies for students: the exercises without their solutions, with checks that go on after the first unsolved one."""

from __future__ import annotations

import ast
import copy
import re

import nbformat

_ANSWER = re.compile(r"<details>\s*<summary>(?P<name>[^<]*)</summary>.*?</details>", flags=re.DOTALL)
_NOTE = (
    "> **A copy for students.** Where a function raises `NotImplementedError`, write your own; the cell below checks "
    "it. What the error says of our solution is a hint. Questions in words leave room for your answer."
)


def student_copy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the copy of a portable notebook: stubs for solutions, room for answers, no outputs."""
    made = copy.deepcopy(notebook)
    bug = False
    for cell in made.cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "markdown":
            cell.source = _ANSWER.sub(_room, cell.source)
            continue
        cell.outputs, cell.execution_count = [], None
        bug = bug or "bug" in tags
        if "solution" in tags:
            cell.source = stub(cell.source, bug)
            cell.metadata = nbformat.from_dict({"tags": ["solution"]})  # to be written in, so never folded
            bug = False
        elif "check" in tags:
            # An exercise that is not done yet does not stop the next one.
            cell.metadata["tags"] = [*tags, "raises-exception"]
    made.cells.insert(1, nbformat.v4.new_markdown_cell(_NOTE))
    made.cells[1].id = "for-students"
    nbformat.validate(made)
    return made


def stub(solution: str, bug: bool) -> str:
    """Return the imports and signatures of a solution; each function says in its error how ours is made.

    Args:
        solution: imports and functions.
        bug: whether a faulty version of it stands in the cell above.
    """
    parts = []
    for statement in ast.parse(solution).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            parts.append(ast.unparse(statement))
        elif isinstance(statement, ast.FunctionDef):
            parts.append(f"\n\n{_stub(statement, bug)}")
    return "\n".join(parts).strip()


def _stub(function: ast.FunctionDef, bug: bool) -> str:
    hint = "copy the faulty version here and mend it" if bug else _hint(function)
    described = function.body[:1] if ast.get_docstring(function) else []
    empty = copy.copy(function)
    empty.body = [*described, *ast.parse("raise NotImplementedError").body]
    return f'{ast.unparse(empty)}("{hint}")'


def _hint(function: ast.FunctionDef) -> str:
    """Say how long the function is, without its docstring, and what it calls."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    nodes = [node for statement in body for node in ast.walk(statement)]
    lines = len({node.lineno for node in nodes if isinstance(node, ast.stmt)})
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = {call.id for call in calls if isinstance(call, ast.Name)} | {
        call.attr for call in calls if isinstance(call, ast.Attribute)
    }
    using = f" with {', '.join(sorted(names - own))}" if names - own else ""
    return f"ours has {lines} {'line' if lines == 1 else 'lines'}{using}"


def _room(answer: re.Match[str]) -> str:
    return answer[0] if answer["name"] == "Hint" else "*Your answer:*"
