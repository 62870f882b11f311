"""Which names of the package a chapter uses and which it builds itself, read from its code cells."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from contents import chapters
from package_source import PACKAGE, ROOT, definition, modules, resolve

# What every chapter draws and writes with says nothing about the chapter.
_OF_EVERY_CHAPTER = (f"{PACKAGE}.plots", f"{PACKAGE}.notebook")
_MAGIC = re.compile(r"^(\s*)[%!].*", flags=re.MULTILINE)


@dataclass(frozen=True)
class Names:
    """Full names, in the order in which a chapter has them.

    Fields:
        used: what its cells import, or take from a module that they import.
        built: classes that its cells define themselves and that the package has under the same name.
    """

    used: tuple[str, ...]
    built: tuple[str, ...]


def names_in(notebook: nbformat.NotebookNode) -> Names:
    """Return the names of the package in the code of a chapter."""
    used: dict[str, None] = {}
    defined: dict[str, None] = {}
    bound: dict[str, str] = {}  # what a name in a cell stands for
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        for node in ast.walk(ast.parse(_MAGIC.sub(r"\1pass", cell.source))):
            imported = _imports(node)
            bound |= imported
            used |= dict.fromkeys(imported.values())
            if isinstance(node, ast.ClassDef):
                defined[node.name] = None
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in bound:
                used[f"{bound[node.value.id]}.{node.attr}"] = None
    full = [name for path in used if (name := resolve(path)) and name not in modules() and not _of_every_chapter(name)]
    return Names(tuple(dict.fromkeys(full)), tuple(name for one in defined for name in _classes().get(one, ())))


def _imports(node: ast.AST) -> dict[str, str]:
    """Return what an import of the package binds: the name in the cell and the path that it stands for."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
        return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    if isinstance(node, ast.Import):
        return {alias.asname: alias.name for alias in node.names if alias.asname and alias.name.startswith(PACKAGE)}
    return {}


def _of_every_chapter(name: str) -> bool:
    return name.startswith(_OF_EVERY_CHAPTER)


@functools.cache
def _classes() -> dict[str, list[str]]:
    """Return the full names of the package's classes by their short ones; of two editions, the PyTorch one's alone."""
    found: dict[str, list[str]] = {}
    for module in modules().values():
        if not module.name.startswith(f"{PACKAGE}.mxnet"):
            for name in module.definitions:
                if isinstance(definition(f"{module.name}.{name}"), ast.ClassDef):
                    found.setdefault(name, []).append(f"{module.name}.{name}")
    return found


@functools.cache
def names_by_chapter() -> dict[Path, Names]:
    """Return the names of every chapter, in the order of the table of contents."""
    return {path: names_in(nbformat.read(ROOT / path, as_version=4)) for path in chapters(ROOT)}
