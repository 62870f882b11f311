"""Running a notebook: errors are reported, copies are kept, and two processes do not run the same one twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from run_notebook import execute

from d2lbert import data


def write(path: Path, source: str) -> None:
    """Write a notebook with a title and one cell of code."""
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell(source)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def test_an_error_in_a_notebook_is_reported(tmp_path: Path) -> None:
    write(tmp_path / "bad.ipynb", "1 / 0")
    run = execute(Path("bad.ipynb"), tmp_path, tmp_path / "executed", {})
    assert "ZeroDivisionError: division by zero" in run.error


def test_a_cell_that_waits_for_ever_is_named(tmp_path: Path) -> None:
    write(tmp_path / "waits.ipynb", "import time; time.sleep(1000)")
    run = execute(Path("waits.ipynb"), tmp_path, tmp_path / "executed", {}, cell_seconds=1)
    assert "timed out" in run.error
    assert "time.sleep(1000)" in run.error
    assert not run.executed.with_suffix(".json").exists()  # so it is not taken for a run that went through


def test_what_has_not_changed_is_not_run_again(tmp_path: Path) -> None:
    write(tmp_path / "good.ipynb", "x = 1")
    runs = [execute(Path("good.ipynb"), tmp_path, tmp_path / "executed", {}) for _ in range(2)]
    assert [run.cached for run in runs] == [False, True]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "new.txt").write_text("new")
    assert not execute(Path("good.ipynb"), tmp_path, tmp_path / "executed", {}).cached
    assert not execute(Path("good.ipynb"), tmp_path, tmp_path / "executed", {"x": 2}).cached
    band = nbformat.read(tmp_path / "executed" / "good.ipynb", as_version=4).cells[1].source
    assert "How this page was run" in band


def test_the_band_names_the_data_that_were_read_however_they_are_named(tmp_path: Path) -> None:
    loop = "from d2lbert import data\nfor name in ('tr' + 'ec', 'mrpc'):\n    data.load(name, 'dev')"
    write(tmp_path / "reads.ipynb", loop)
    notebook = nbformat.read(execute(Path("reads.ipynb"), tmp_path, tmp_path / "executed", {}).executed, as_version=4)
    kind = "sample" if data.is_sample("trec") else "full"
    assert f"Data: mrpc ({kind}), trec ({kind})." in notebook.cells[1].source
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "markdown", "code"]


def test_two_that_want_the_same_notebook_run_it_once(tmp_path: Path) -> None:
    """The chapters' tests and the site's do, side by side. A lock on a file parts threads as it parts processes."""
    write(tmp_path / "good.ipynb", "open('runs', 'a').write('x')")
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: execute(Path("good.ipynb"), tmp_path, tmp_path / "executed", {}), range(2)))
    assert sorted(run.cached for run in runs) == [False, True]
    assert (tmp_path / "runs").read_text() == "x"
