"""Run chapters and store the outputs of their checked cells; strip all others.

    python tools/keep_outputs.py chapters/attention/attention.ipynb ...

Cells tagged ``nbval-check-output`` and ``keep_output`` print what is the same on every machine. nbval and the tests
compare it with what a new run prints.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
import papermill

KEPT = {"nbval-check-output", "keep_output"}


def join_streams(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join what was printed in several pieces: a busy machine sends it so."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        before = joined[-1] if joined else None
        if before is not None and output.output_type == before.output_type == "stream" and output.name == before.name:
            before.text += output.text
        else:
            joined.append(output)
    return joined


def keep_outputs(path: Path) -> None:
    """Run one notebook and write the outputs of its checked cells into it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run.ipynb"
        papermill.execute_notebook(path, copy, cwd=path.parent, progress_bar=False, kernel_name="python3")
        executed = {cell.id: cell for cell in nbformat.read(copy, as_version=4).cells}
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        checked = set(cell.metadata.get("tags", [])) >= KEPT
        cell.outputs = join_streams(executed[cell.id].outputs) if checked else []
        cell.execution_count = executed[cell.id].execution_count if checked else None
        for output in cell.outputs:
            output.pop("execution_count", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        keep_outputs(Path(name))
        print(f"stored the checked outputs of {name}")
