"""Every chapter runs to its end, on samples and on real data, and its checked cells print what the source keeps.

A false claim (``notebook.claim``) ends a run. The executed copies are those of ``make book`` (tools/run_notebook.py),
reused where nothing has changed. Where ``D2LBERT_DATA`` is set, a chapter that loads data runs on the samples as well.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from chapter_rules import KEPT, tags
from run_notebook import execute

from d2lbert.notebook import TOY

ROOT = Path(__file__).resolve().parents[3]
CHAPTERS = sorted((ROOT / "chapters").rglob("*.ipynb"))
CELL_SECONDS = 900  # a cell that waits for ever is named; the longest takes less than two minutes
LOADS = re.compile(r"\bdata\.(?:load|read|fetch)\(")


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


def warnings_shown(path: Path) -> list[str]:
    """What cells print to the error stream, but for the lines that say which data is a toy."""
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    lines = [line for output in outputs if output.get("name") == "stderr" for line in output.text.splitlines()]
    return [line for line in lines if line and not line.startswith(TOY)]


def check_run(path: Path, folder: Path) -> None:
    run = execute(path.relative_to(ROOT), ROOT, folder, {}, CELL_SECONDS)
    assert not run.error
    kept = checked_outputs(path)
    assert kept, "no cell is checked"
    assert checked_outputs(run.executed) == kept
    assert not warnings_shown(run.executed)


@pytest.mark.slow
@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter_runs_and_prints_what_it_should(path: Path) -> None:
    check_run(path, ROOT / "_build" / "executed")


def loads_data(path: Path) -> bool:
    """Whether a cell of a chapter loads data; an exercise that names a data set in its text loads none."""
    cells = nbformat.read(path, as_version=4).cells
    return any(LOADS.search(cell.source) for cell in cells if cell.cell_type == "code")


ON_SAMPLES = [path for path in CHAPTERS if "D2LBERT_DATA" in os.environ and loads_data(path)]


@pytest.mark.slow
@pytest.mark.parametrize("path", ON_SAMPLES, ids=lambda path: path.stem)
def test_chapter_runs_on_samples_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("D2LBERT_DATA")
    monkeypatch.setenv("D2LBERT_OFFLINE", "1")
    check_run(path, ROOT / "_build" / "executed_on_samples")


def test_nbval_accepts_what_is_kept() -> None:
    """As ``make notebooks`` asks it, on the shortest chapter; what nbval wants of all is a rule of the structure."""
    shortest = "chapters/finetuning/deeper_artifacts.ipynb"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax", shortest]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert re.search(r"[1-9] passed", run.stdout)


def test_another_output_is_seen(tmp_path: Path) -> None:
    """The comparison fails where a checked cell prints something else."""
    notebook = nbformat.read(CHAPTERS[0], as_version=4)
    changed = next(cell for cell in notebook.cells if cell.cell_type == "code" and tags(cell) >= KEPT)
    changed.outputs[0].text = "something else"
    nbformat.write(notebook, tmp_path / "changed.ipynb")
    assert checked_outputs(tmp_path / "changed.ipynb") != checked_outputs(CHAPTERS[0])


def test_a_raw_warning_is_seen(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 1")])
    told = [f"{TOY}sst2: a sample\n", "/some/file.py:3: UserWarning: look\n"]
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", name="stderr", text=text) for text in told]
    nbformat.write(notebook, tmp_path / "warned.ipynb")
    assert warnings_shown(tmp_path / "warned.ipynb") == ["/some/file.py:3: UserWarning: look"]
