"""cost/start: the imports of a chapter, and the ratio of a side to ``import torch``."""

from __future__ import annotations

import ast
import resource
from pathlib import Path

import nbformat
import pytest

from benchmarks.children import Used, used_by
from benchmarks.cost import start

# Each takes about as long to import as PyTorch, so a chapter imports it in the cell that uses it.
LARGE = {"sklearn", "scipy", "transformers", "pandas", "mxnet", "gensim", "torch.distributed"}


def test_imports_of_a_cell() -> None:
    source = "%matplotlib inline\nimport math\nfrom a import (\n    b,\n    c,\n)\nx = math.pi\nfrom d import e\n"
    assert start.imports_of(source) == "import math\nfrom a import (\n    b,\n    c,\n)\nfrom d import e"


def test_the_first_cell_of_a_chapter_that_imports_something(tmp_path: Path) -> None:
    v4 = nbformat.v4
    cells = [v4.new_code_cell(source) for source in ("import os", "x = 1", "import math\nx", "import json")]
    cells[0].metadata["tags"] = ["colab"]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "chapter.ipynb")
    assert start.first_imports(tmp_path / "chapter.ipynb") == "import math"


@pytest.mark.parametrize("path", start.chapter_files(), ids=lambda path: path.stem)
def test_a_chapter_begins_without_large_packages_beside_torch(path: Path) -> None:
    """Those without PyTorch may begin with one of them."""
    names = set()
    for node in ast.parse(start.first_imports(path)).body:
        names |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
        names |= {str(node.module)} if isinstance(node, ast.ImportFrom) else set()
    first = {name.split(".")[0] for name in names}
    assert "torch" not in first or not (first | names) & LARGE


def test_ratios_are_those_within_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = iter([9.0, 1.0, 3.0, 2.0, 4.0])  # what runs before is not counted
    monkeypatch.setattr(start, "used_by", lambda *_: Used(next(taken), 0.0, ""))
    found = start.measured({start.BASE: [], "ours": []}, [[]], lambda used: used.seconds, rounds=2)
    assert found["ours"]["seconds"]["median"] == 3.5
    assert found["ours"]["to_import_torch"]["median"] == 2.5


def test_what_a_child_used() -> None:
    used = used_by(["-c", "x = bytearray(100 * 2**20); x[:] = b'1' * len(x); print('done')"])
    assert used.output == "done\n"
    here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10  # where the count of a child begins
    assert 100 < used.mebibytes < max(here, 100) + 300
    assert used.seconds > used_by(["-c", "pass"]).seconds > 0
    with pytest.raises(SystemExit, match="ended with 3"):
        used_by(["-c", "raise SystemExit(3)"])
