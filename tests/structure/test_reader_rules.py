"""Each rule for a chapter that its reader builds sees a chapter that breaks it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from contents import Place, chapters, place
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from reader_rules import claim_problems, reader_problems

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "chapters" / "middle.ipynb"
ORDER = [Path("chapters/first.ipynb"), Path("chapters/middle.ipynb"), Path("chapters/end.ipynb")]
HERE = Place("Part", ["Part"], ORDER[0], ORDER[2])
KINDS = ["by hand", "predict, then run", "build", "build", "find the bug", "investigate"]


def _folded(source: str, *names: str) -> nbformat.NotebookNode:
    return new_code_cell(source, metadata={"tags": ["hide-input", *names]})


def _good() -> nbformat.NotebookNode:
    opening = "# Middle\n\n**You need**: [first](first.ipynb).\n\n**You will be able to** do it."
    section = f"## One\n\n{'word ' * 1300} Why? The loss falls. See the [last chapter](first.ipynb)."
    exercises = "\n\n".join(
        f"**Exercise {n} ({kind}).** Do.\n\n<details>x</details>" for n, kind in enumerate(KINDS, 1)
    )
    return new_notebook(
        cells=[
            new_markdown_cell(opening),
            new_markdown_cell(section),
            *[new_code_cell("x = 1") for _ in range(9)],
            _folded("notebook.claim('The loss falls.', 1 < 2, loss=1)", "claims"),
            _folded("assert x == 1", "checks"),
            _folded("from d2lbert import mxnet", "mxnet"),
            new_code_cell("y = 2", metadata={"tags": ["bug"]}),
            new_markdown_cell(f"## Exercises\n\n{exercises}"),
        ]
    )


def _problems(notebook: nbformat.NotebookNode, path: Path = PATH) -> list[str]:
    return reader_problems(notebook, path, ROOT, ORDER, HERE)


def test_good_chapter_passes() -> None:
    assert not _problems(_good())


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("**You need**", "Needed", "what you need"),
        ("**You will be able to**", "You can", "what you will be able to do"),
        ("[first](first.ipynb)", "[end](end.ipynb)", "which comes later"),
        ("[last chapter](first.ipynb)", "last chapter", "'last chapter' is not a link"),
        ("[last chapter](first.ipynb)", "[last chapter](end.ipynb)", "which it is not"),
        ("[last chapter](first.ipynb)", "[next chapter](first.ipynb)", "which it is not"),
        ("The loss falls. See", "The loss rises. See", "claimed but not on the page: The loss falls."),
        ("Why?", "Why.", "no question to the reader in 'One'"),
        ("word ", "", "words before the exercises"),
        ("(by hand)", "(easy)", "kind 'easy'"),
        ("(find the bug)", "(build)", "0 exercises of kind find the bug"),
        ("**Exercise 6", "**6", "5 exercises in a row"),
        ("<details>x</details>", "", "0 solutions"),
    ],
)
def test_rule_sees_bad_prose(old: str, new: str, problem: str) -> None:
    notebook = _good()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace(old, new)
    assert any(problem in found for found in _problems(notebook)), _problems(notebook)


@pytest.mark.parametrize(
    ("source", "tags", "problem"),
    [
        ("x = '" + "a" * 80 + "'", [], "wider than 80 columns"),
        ("x = 1\n" * 200, [], "visible lines of code"),
        ("assert x", ["checks"], "tagged checks is not folded"),
        ("assert x", ["check"], "tagged check is not folded"),
        ("import mxnet as mx", ["hide-input"], "not tagged mxnet"),
        ("import mxnet as mx", ["hide-input", "mxnet"], "more than one cell tagged mxnet"),
        ("y = 1", ["bug"], "1 exercises to find a bug, 2 cells"),
    ],
)
def test_rule_sees_bad_cells(source: str, tags: list[str], problem: str) -> None:
    notebook = _good()
    notebook.cells.append(new_code_cell(source, metadata={"tags": tags}))
    assert any(problem in found for found in _problems(notebook)), _problems(notebook)


@pytest.mark.parametrize(("name", "problem"), [("claims", "no notebook.claim"), ("checks", "no cell tagged checks")])
def test_rule_sees_what_is_not_there(name: str, problem: str) -> None:
    notebook = _good()
    notebook.cells = [cell for cell in notebook.cells if name not in cell.metadata.get("tags", [])]
    assert any(problem in found for found in _problems(notebook))


def test_a_deeper_page_needs_only_lines_that_fit() -> None:
    page = new_notebook(cells=[new_markdown_cell("# Deeper"), new_code_cell("x = 1")])
    assert not _problems(page, PATH.with_stem("deeper_one"))
    page.cells.append(new_code_cell("x = '" + "a" * 80 + "'"))
    assert any("wider than 80" in found for found in _problems(page, PATH.with_stem("deeper_one")))


def test_a_claim_may_be_about_a_caption() -> None:
    notebook = _good()
    notebook.cells.append(
        _folded("plots.bars({}, caption='Both are' ' high.')\nnotebook.claim('Both are high.', True)")
    )
    assert not claim_problems(notebook)
    notebook.cells.append(_folded("notebook.claim('Both are low.', True)"))
    assert claim_problems(notebook) == ["claimed but not on the page: Both are low."]


def test_the_place_of_a_chapter_is_that_of_the_table_of_contents() -> None:
    order = [path for path in chapters(ROOT) if not path.stem.startswith("deeper_")]
    for number, path in enumerate(order):
        here = place(ROOT, path)
        assert here.previous == (order[number - 1] if number else None)
        assert here.following == (order[number + 1] if number + 1 < len(order) else None)
        assert here.part in here.parts


def test_a_deeper_page_is_passed_over_by_its_neighbours(tmp_path: Path) -> None:
    for name in ("a", "deeper_b", "c"):
        (tmp_path / f"{name}.ipynb").touch()
    (tmp_path / "_toc.yml").write_text(
        "parts:\n- {caption: P, chapters: [{file: a}, {file: deeper_b}]}\n- {caption: Q, chapters: [{file: c}]}\n"
    )
    first, deeper, last = (place(tmp_path, Path(f"{name}.ipynb")) for name in ("a", "deeper_b", "c"))
    assert (first.following, last.previous) == (Path("c.ipynb"), Path("a.ipynb"))
    assert (deeper.previous, deeper.following, deeper.part) == (Path("a.ipynb"), Path("c.ipynb"), "P")
