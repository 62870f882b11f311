"""Every chapter runs from top to bottom, and its checked cells print what the source keeps.

The executed copies are those of ``make book`` (tools/run_notebook.py), reused where nothing has changed.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from chapter_rules import KEPT, tags
from run_notebook import execute

ROOT = Path(__file__).resolve().parents[3]
CHAPTERS = sorted((ROOT / "chapters").rglob("*.ipynb"))


def checked_outputs(path: Path) -> dict[str, str]:
    """What each checked cell prints, by the id of the cell."""
    cells = nbformat.read(path, as_version=4).cells
    return {cell.id: _text(cell) for cell in cells if cell.cell_type == "code" and tags(cell) >= KEPT}


def _text(cell: nbformat.NotebookNode) -> str:
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            parts.append(output.text)
        elif "data" in output:
            parts.append(output.data.get("text/plain", "") + "\n")
    return "".join(parts).strip()


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_and_prints_what_it_should(path: Path) -> None:
    run = execute(path.relative_to(ROOT), ROOT, ROOT / "_build" / "executed", {})
    assert not run.error
    kept = checked_outputs(path)
    assert kept, "no cell is checked"
    assert checked_outputs(run.executed) == kept


def test_another_output_is_seen(tmp_path: Path) -> None:
    """The comparison fails where a checked cell prints something else."""
    notebook = nbformat.read(CHAPTERS[0], as_version=4)
    changed = next(cell for cell in notebook.cells if cell.cell_type == "code" and tags(cell) >= KEPT)
    changed.outputs[0].text = "something else"
    nbformat.write(notebook, tmp_path / "changed.ipynb")
    assert checked_outputs(tmp_path / "changed.ipynb") != checked_outputs(CHAPTERS[0])
