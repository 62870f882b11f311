"""Copies for students hold no solution, and their stubs fail until somebody writes one."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from book_support import EXERCISE, chapter, executed
from chapter_rules import tags
from nbformat.v4 import new_code_cell
from student import stub, student_copy

ROOT = Path(__file__).resolve().parents[3]
CHAPTERS = sorted((ROOT / "chapters").rglob("*.ipynb"))
_FOLDED = re.compile(r"<details><summary>(?!Hint)[^<]*</summary>(.*?)</details>", flags=re.DOTALL)


def solutions(notebook: nbformat.NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code" and "solution" in tags(cell)]


def secrets(notebook: nbformat.NotebookNode) -> set[str]:
    """The lines of all solutions, in code and in words, that stand nowhere else in the chapter."""
    told = set()
    for solution in solutions(notebook):
        for function in ast.parse(solution).body:
            if isinstance(function, ast.FunctionDef):
                last = function.end_lineno or function.lineno
                told |= set(solution.splitlines()[function.body[0].lineno - 1 : last])
    words = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    told |= {line for text in words for answer in _FOLDED.findall(text) for line in answer.splitlines()}
    others = [cell.source for cell in notebook.cells if cell.cell_type == "code" and "solution" not in tags(cell)]
    shown = "\n".join([*others, *(_FOLDED.sub("", text) for text in words)])
    return {line.strip() for line in told if len(line.strip()) > 8 and line.strip() not in shown}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_no_line_of_a_solution_is_left(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    copy = nbformat.writes(student_copy(notebook))
    assert not [line for line in secrets(notebook) if json.dumps(line, ensure_ascii=False)[1:-1] in copy]
    assert len(solutions(notebook)) == copy.count('"solution"')


def test_copy() -> None:
    notebook = executed(chapter(*EXERCISE), x="1")
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="correct")]
    before = nbformat.from_dict(notebook)
    copy = student_copy(notebook)
    assert notebook == before
    assert "A copy for students" in copy.cells[1].source
    words, hint, solution, check = copy.cells[-4:]
    assert words.source.endswith("How many?\n\n*Your answer:*")
    assert "<summary>Hint</summary>" in hint.source
    assert solution.source.splitlines() == [
        "import math",
        "",
        "",
        "def double(x, times=1):",
        '    """Double x (n,)."""',
        '    raise NotImplementedError("ours has 2 lines with fsum")',
    ]
    assert solution.metadata == {"tags": ["solution"]}, "not folded: it is to be written in"
    assert check.source == EXERCISE[-1].source
    assert "raises-exception" in tags(check)
    assert not check.outputs


def test_a_stub_beside_a_bug_says_so_once() -> None:
    wrong = new_code_cell("def double(x):\n    return x", metadata={"tags": ["bug"]})
    first, second = student_copy(chapter(wrong, *EXERCISE[2:], *EXERCISE[2:])).cells[-4::2]
    assert 'NotImplementedError("copy the faulty version here and mend it")' in first.source
    assert "ours has 2 lines" in second.source


def test_stub_keeps_every_function_and_import() -> None:
    made = stub(
        "import math\n\n\ndef one(a):\n    return a\n\n\ndef two(b, *, c=3):\n    return one(b) + c\n", bug=False
    )
    namespace: dict[str, object] = {}
    exec(made, namespace)
    assert "math" in namespace
    for name in ("one", "two"):
        with pytest.raises(NotImplementedError, match="ours has 1 line"):
            namespace[name](1)  # type: ignore[operator]
