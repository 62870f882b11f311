"""What a reader must open to understand a model, and what Python must load to use it.

The reading cost of a file is the file and all that its top-level imports lead to, of ours: their number, their lines.
Imports inside functions do not count (what reads and writes files is imported where it is used), nor do those for
type checking.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from test_layers import type_checking_removed

# The models that chapters open, in both editions.
MODELS = ("attention", "bert", "elmo", "gpt", "seq2seq", "transformer")
MOST_FILES = {"torch": 10, "mxnet": 11}  # every block of MXNet stands on one file more
MOST_LINES = 2000

# What importing a model must not bring along.
FOREIGN = ("d2lbert.data.readers", "d2lbert.tasks", "d2lbert.torch.training", "torch.distributed.fsdp")


def imported_files(path: Path, root: Path) -> set[Path]:
    """The files of the package that a file imports at its top level; of a folder, its ``__init__``."""
    found = set()
    for node in type_checking_removed(path.read_text()).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found |= {file for name in names if (file := _file_of(name, root)) is not None}
    return found


def _file_of(module: str, root: Path) -> Path | None:
    """The file of a module of the package. A folder without code of its own is only a way to what it holds."""
    if module.split(".")[0] != "d2lbert":
        return None
    path = root.joinpath(*module.split("."))
    if path.with_suffix(".py").is_file():
        return path.with_suffix(".py")
    file = path / "__init__.py"
    return file if file.is_file() and len(ast.parse(file.read_text()).body) > 1 and "." in module else None


def reading_cost(path: Path, root: Path) -> set[Path]:
    """A file and all that its imports lead to."""
    seen, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        if file not in seen:
            seen.add(file)
            waiting += imported_files(file, root)
    return seen


@pytest.mark.parametrize("edition", ["torch", "mxnet"])
@pytest.mark.parametrize("model", MODELS)
def test_a_model_is_read_in_a_few_files(root: Path, edition: str, model: str) -> None:
    files = reading_cost(root / "d2lbert" / edition / f"{model}.py", root)
    lines = sum(len(file.read_text().splitlines()) for file in files)
    names = sorted(str(file.relative_to(root)) for file in files)
    assert len(files) <= MOST_FILES[edition], names
    assert lines <= MOST_LINES, (lines, names)


def test_what_a_file_leads_to_is_seen(tmp_path: Path) -> None:
    folder = tmp_path / "d2lbert" / "torch"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("import math\nfrom d2lbert.torch.b import f\n")
    (folder / "b.py").write_text("from d2lbert.torch import c\n\n\ndef f():\n    from d2lbert.torch import d\n")
    (folder / "c.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import d2lbert.torch.d\n")
    (folder / "d.py").write_text("")
    assert {file.stem for file in reading_cost(folder / "a.py", tmp_path)} == {"a", "b", "c"}


@pytest.mark.parametrize("model", MODELS)
def test_a_model_brings_no_reader_no_task_and_no_training(model: str) -> None:
    program = (
        f"import sys, d2lbert.torch.{model}\nprint(*(name for name in sys.modules if name.startswith({FOREIGN!r})))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not result.stdout.split()


def test_no_file_leads_back_to_itself(root: Path) -> None:
    """No circle of imports, not even through functions."""
    files = sorted((root / "d2lbert").rglob("*.py"))
    after = {file: _all_imports(file, root) for file in files}
    order: list[Path] = []
    while remaining := [file for file in files if file not in order]:
        ready = [file for file in remaining if after[file] - {file} <= set(order)]
        assert ready, f"a circle among {sorted(str(file.relative_to(root)) for file in remaining)}"
        order += ready


def _all_imports(path: Path, root: Path) -> set[Path]:
    found = set()
    for node in ast.walk(type_checking_removed(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        found |= {file for name in names if (file := _file_of(name, root)) is not None}
    return found


def test_rooms_are_not_too_full(root: Path) -> None:
    package = root / "d2lbert"
    loose = [path.name for path in package.glob("*.py")]
    assert len(loose) <= 8, sorted(loose)
    for folder in {path.parent for path in package.rglob("*.py")}:
        assert len(list(folder.glob("*.py"))) <= 20, folder
