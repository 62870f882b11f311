"""Imports flow one way, the neutral part needs no framework, files and functions stay short."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

# A layer may import itself and what stands before it. The two editions share a place: neither imports the other.
ORDER = {
    "errors": 0,
    "storage": 1,
    "outputs": 1,
    "config": 2,
    "text": 2,
    "metrics": 2,
    "weights": 3,
    "data": 4,
    "zoo": 4,
    "plots": 4,
    "notebook": 4,
    "tasks": 5,
    "training": 6,
    "torch": 7,
    "mxnet": 7,
    "models": 8,
    "deploy": 9,
    "commands": 10,
    "cli": 11,
}
NEUTRAL = [name for name, place in ORDER.items() if place < 7]
FRAMEWORKS = {"torch", "mxnet"}


def type_checking_removed(source: str) -> ast.Module:
    """The parsed source without what only a type checker imports."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    return tree


def imported_modules(source: str, top_level_only: bool = False) -> set[str]:
    """Names of the modules that a source text imports; type-checking imports do not count."""
    tree = type_checking_removed(source)
    nodes = tree.body if top_level_only else ast.walk(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "d2lbert" and len(parts) > 1 and parts[1] in ORDER else None


def layer_problems(layer: str, source: str) -> list[str]:
    """Imports of a file that go against the flow. Inside a function the zoo may read an old checkpoint with PyTorch."""
    problems = []
    for module in sorted(imported_modules(source)):
        other = layer_of(module)
        if other is None or other == layer:
            continue
        if ORDER[other] > ORDER[layer] or {other, layer} == FRAMEWORKS:
            problems.append(f"{layer} imports {module}")
    if layer in NEUTRAL:
        imported = imported_modules(source, top_level_only=layer == "zoo")
        frameworks = {module.split(".")[0] for module in imported} & FRAMEWORKS
        problems += [f"{layer} imports the framework {name}" for name in sorted(frameworks)]
    return problems


def size_problems(source: str) -> list[str]:
    """A file above 400 lines, a function whose body has more than 40 lines, its docstring not counted."""
    problems = []
    if len(source.splitlines()) > 400:
        problems.append(f"{len(source.splitlines())} lines")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1:] if ast.get_docstring(node) else node.body
            if first and first[-1].end_lineno - first[0].lineno + 1 > 40:
                problems.append(f"function {node.name} has more than 40 lines of body")
    return problems


def _files(root: Path, *folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def test_imports_flow_one_way(root: Path) -> None:
    problems = []
    for path in _files(root, "d2lbert"):
        relative = path.relative_to(root / "d2lbert")
        layer = relative.parts[0].removesuffix(".py")
        if layer in ORDER:
            problems += [f"{relative}: {problem}" for problem in layer_problems(layer, path.read_text())]
    assert not problems


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("text", "from d2lbert.data import load"),
        ("data", "import torch"),
        ("tasks", "def f():\n    from d2lbert.torch import BertModel"),
        ("torch", "from d2lbert.mxnet.bert import BertModel"),
        ("mxnet", "import d2lbert.torch.bert"),
        ("torch", "from d2lbert import cli"),
    ],
)
def test_wrong_imports_are_seen(layer: str, source: str) -> None:
    assert layer_problems(layer, source)


def test_right_imports_pass() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from d2lbert.torch import BertModel\n"
    assert not layer_problems("text", source)
    assert not layer_problems("torch", "import torch\nfrom d2lbert.data.batching import pack")


def test_neutral_part_loads_no_framework() -> None:
    program = (
        "import sys, d2lbert, d2lbert.text, d2lbert.data, d2lbert.tasks.classification, d2lbert.weights, d2lbert.cli\n"
        "print([name for name in ('torch', 'mxnet') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_files_and_functions_are_short(root: Path) -> None:
    paths = _files(root, "d2lbert", "tools", "benchmarks", "tests")
    assert not {str(path.relative_to(root)): found for path in paths if (found := size_problems(path.read_text()))}


def test_long_ones_are_seen() -> None:
    assert size_problems("x = 1\n" * 401)
    assert size_problems("def f():\n" + "    x = 1\n" * 41)
    assert not size_problems('def f():\n    """' + "a\n" * 50 + '    """\n    return 1\n')


def test_public_docstrings_are_there(root: Path) -> None:
    missing = []
    for path in _files(root, "d2lbert"):
        tree = ast.parse(path.read_text())
        if tree.body and not ast.get_docstring(tree):
            missing.append(str(path.relative_to(root)))
        for node in tree.body:
            public = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            if public and not ast.get_docstring(node):
                missing.append(f"{path.relative_to(root)}: {node.name}")
    assert not missing
