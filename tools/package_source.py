"""The package as its source text says it is: modules, public names, signatures and docstrings, without an import.

So the reference has the same pages where MXNet or another optional package is missing.
"""

from __future__ import annotations

import ast
import functools
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "d2lbert"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Module:
    """One file of the package.

    Fields:
        name: as it is imported, ``d2lbert.torch.bert``.
        docstring: of the file.
        definitions: the public functions, classes and constants that it defines, in its order.
        imported: each name that it imports, with where that comes from.
        offered: the names of its ``__all__``; none where it has no such list.
        comments: what is written beside or right above a constant, by the constant's name.
    """

    name: str
    docstring: str
    definitions: dict[str, Definition]
    imported: dict[str, str]
    offered: list[str]
    comments: dict[str, str]


@functools.cache
def modules() -> dict[str, Module]:
    """Return every module of the package by its name."""
    found = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = read_module(name, path.read_text(encoding="utf-8"))
    return found


def read_module(name: str, source: str) -> Module:
    """Return the module of a source text."""
    tree = ast.parse(source)
    definitions: dict[str, Definition] = {}
    imported: dict[str, str] = {}
    for node in _top_level(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)):
            definitions |= {bound: node for bound in _bound(node) if is_public(bound)}
    offered = definitions.pop("__all__", None)
    names = ast.literal_eval(offered.value) if isinstance(offered, ast.Assign) else []
    comments = _comments(source, definitions)
    return Module(name, ast.get_docstring(tree) or "", definitions, imported, names, comments)


def is_public(name: str) -> bool:
    """Whether users may use a name; the two of a module with underscores are ``__all__`` and ``__version__``."""
    return not name.startswith("_") or name in ("__all__", "__version__")


def resolve(path: str) -> str | None:
    """Return the full name of what can be imported as ``path``: the module that defines it, then its name.

    Returns:
        ``d2lbert.torch.bert.BertModel`` for ``d2lbert.torch.BertModel``; the name itself for a module; None for what
        the package does not define.
    """
    if path in modules():
        return path
    parent, _, name = path.rpartition(".")
    module = modules().get(parent)
    if module is None:
        return None
    if name in module.definitions:
        return path
    return resolve(module.imported[name]) if name in module.imported else None


def definition(path: str) -> Definition | None:
    """Return the definition of a full name, as ``resolve`` gives it; None for a module."""
    parent, _, name = path.rpartition(".")
    return modules()[parent].definitions[name] if path not in modules() else None


def aliases() -> dict[str, str]:
    """Return the shorter name, ``d2lbert.torch.BertModel``, of each full name that a package offers in ``__all__``."""
    found: dict[str, str] = {}
    for module in modules().values():
        for name in module.offered:
            full = resolve(f"{module.name}.{name}")
            if full and full != f"{module.name}.{name}":
                found.setdefault(full, f"{module.name}.{name}")
    return found


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those under an ``if`` or a ``try`` included."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from _top_level(node.body)
        else:
            yield node


def _bound(node: Definition) -> list[str]:
    """Return the names that a definition binds."""
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):  # also of several names at once: PAD, CLS = ...
        names = [name for target in node.targets for name in getattr(target, "elts", [target])]
        return [name.id for name in names if isinstance(name, ast.Name)]
    return [node.name]


def _comments(source: str, definitions: dict[str, Definition]) -> dict[str, str]:
    """Return the comment at the end of each constant, or else the lines of comment right above it."""
    at_line: dict[int, str] = {}
    alone: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            at_line[token.start[0]] = token.string.lstrip("# ").strip()
            if not token.line[: token.start[1]].strip():
                alone.add(token.start[0])
    found = {}
    for name, node in definitions.items():
        if not isinstance(node, (ast.Assign, ast.AnnAssign)):
            continue
        first = node.lineno
        while first - 1 in alone:
            first -= 1
        above = " ".join(at_line[line] for line in range(first, node.lineno))
        found[name] = at_line.get(node.end_lineno or 0, above)
    return found
