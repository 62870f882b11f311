"""What the copies of the chapters say of their run is read as ``tools/run_notebook.py`` writes it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import run_notebook

from benchmarks.site.chapters import BAND, WHERE, band_of, gather, missing


def test_a_band_is_read_as_it_is_written(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_notebook, "_accelerator", lambda: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(run_notebook, "_processor", lambda: "Intel(R) Xeon(R) Processor, 2.1 GHz")
    band = run_notebook._band(root, 61.4, 2.26, {"sst2": "sample"})
    cells = [nbformat.v4.new_markdown_cell(text) for text in ("# A title", band, "In 9 s.")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "bert.ipynb")
    found = band_of(tmp_path / "bert.ipynb")
    assert (found["seconds"], found["gibibytes"]) == ("61", "2.3")
    assert found["accelerator"] == "NVIDIA H100 80GB HBM3"
    assert found["processor"] == "Intel(R) Xeon(R) Processor, 2.1 GHz"
    assert set(WHERE) <= set(BAND.groupindex)


def test_a_copy_without_a_band_is_refused(tmp_path: Path) -> None:
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# BERT")]), tmp_path / "bert.ipynb")
    with pytest.raises(SystemExit, match=r"bert\.ipynb does not say how it was run"):
        band_of(tmp_path / "bert.ipynb")


def test_copies_of_two_machines_are_refused() -> None:
    one = dict.fromkeys((*WHERE, "date"), "same") | {"seconds": "3", "gibibytes": "0.5"}
    assert gather({"a": one, "b": one | {"seconds": "4"}})["chapters"] == {
        "a": {"seconds": 3, "gibibytes": 0.5},
        "b": {"seconds": 4, "gibibytes": 0.5},
    }
    with pytest.raises(SystemExit, match="more than one accelerator"):
        gather({"a": one, "b": one | {"accelerator": "none"}})


def test_chapters_that_did_not_run_are_named(root: Path) -> None:
    stems = [path.stem for path in (root / "chapters").rglob("*.ipynb")]
    assert missing(stems) == []
    assert missing(stem for stem in stems if stem not in ("bert", "mxnet")) == ["bert", "mxnet"]
