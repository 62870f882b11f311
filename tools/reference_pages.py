"""Make the part "Reference" of the site: a page for each area of the package's public interface.

``reference_areas`` says what a page holds. In place of a line that names a module come signatures, docstrings and links
to chapters, read from the source (``package_source``); a line ``<!-- commands -->`` stands for the command line
(``command_reference``).
"""

from __future__ import annotations

import ast
from pathlib import Path

from chapter_names import names_by_chapter
from command_reference import command_sections
from contents import title
from package_source import ROOT, Definition, Function, Module, aliases, is_public, modules
from reference_areas import PAGES, SECTION, Section, sections
from signatures import (
    annotation,
    bases,
    class_signature,
    decorators,
    described,
    methods,
    settings_of,
    signature,
    value_of,
)

_COMMANDS = "<!-- commands -->"
_MOST_CHAPTERS = 6
_INDENT = "   "


def write_reference(source: Path) -> None:
    """Write every page of the reference into ``source/reference``."""
    folder = source / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(PAGES.glob("*.md")):
        (folder / path.name).write_text(page_text(path.read_text(encoding="utf-8")), encoding="utf-8")


def page_text(text: str) -> str:
    """Return a page with its modules and commands in place of the lines that ask for them."""
    made = iter(_module_text(section) for section in sections(text))
    text = SECTION.sub(lambda _: next(made), text)
    return text.replace(_COMMANDS, command_sections()) if _COMMANDS in text else text


def _module_text(section: Section) -> str:
    """Return a section: a heading in Markdown, then everything else in reStructuredText, as docstrings are."""
    module = modules()[section.module]
    # A module is no target: the search would put all modules of a topic before its chapter.
    lines = [f".. py:currentmodule:: {module.name}", "", *described(module.docstring), ""]
    lines += [f"Explained in {_chapter_link(Path('chapters') / f'{section.chapter}.ipynb')}.", ""]
    if len(section.names) > 1:
        lines += ["Here: " + " · ".join(f":py:obj:`{name} <{module.name}.{name}>`" for name in section.names), ""]
    for name in section.names:
        lines += _definition(name, module.definitions[name], module, section)
    text = "\n".join(lines)
    return f"## `{module.name}`\n\n``````{{eval-rst}}\n{text}\n``````"


def _definition(name: str, node: Definition, module: Module, section: Section) -> list[str]:
    full = f"{module.name}.{name}"
    if isinstance(node, ast.ClassDef):
        head, body = _class(node, module)
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        head, body = _constant(name, node, module)
    else:
        head, body = _callable("py:function", node, module, bound=False)
    if full in aliases():
        short = aliases()[full]
        head += [f"{_INDENT}:canonical: {short}"]
        body = [f"Import: ``from {short.rpartition('.')[0]} import {name}``", "", *body]
    return [*head, "", *_indented([*body, *_chapters(full, node, section)]), ""]


def _class(node: ast.ClassDef, module: Module) -> tuple[list[str], list[str]]:
    body = []
    if parents := bases(node, module):
        body += ["Bases: " + ", ".join(f":class:`~{name}`" for name in parents), ""]
    body += [*described((ast.get_docstring(node) or "") + settings_of(node, module)), ""]
    for method in methods(node):
        kinds = decorators(method)
        if not is_public(method.name) or "overload" in kinds or any(kind.endswith(".setter") for kind in kinds):
            continue
        if kinds & {"property", "functools.cached_property", "cached_property"}:
            kind = [f"{_INDENT}:type: {annotation(method.returns, module)}"] if method.returns else []
            head = [f".. py:property:: {method.name}", *kind]
            inner = described(ast.get_docstring(method) or "")
        else:
            head, inner = _callable("py:method", method, module, bound="staticmethod" not in kinds)
        body += [*head, "", *_indented(inner), ""]
    return [f".. py:class:: {node.name}{class_signature(node, module)}"], body


def _callable(directive: str, node: Function, module: Module, bound: bool) -> tuple[list[str], list[str]]:
    head = [f".. {directive}:: {node.name}{signature(node, module, bound)}"]
    head += [f"{_INDENT}:{kind}:" for kind in ("classmethod", "staticmethod") if kind in decorators(node)]
    head += [f"{_INDENT}:async:"] if isinstance(node, ast.AsyncFunctionDef) else []
    return head, described(ast.get_docstring(node) or "")


def _constant(name: str, node: ast.Assign | ast.AnnAssign, module: Module) -> tuple[list[str], list[str]]:
    head = [f".. py:data:: {name}"]
    if isinstance(node, ast.AnnAssign):
        head.append(f"{_INDENT}:type: {annotation(node.annotation, module)}")
    if value := value_of(node):
        head.append(f"{_INDENT}:value: {value}")
    return head, [module.comments[name], ""]


def _chapters(full: str, node: Definition, section: Section) -> list[str]:
    """Return the line that leads from a class or a function to its chapters, those that build it first."""
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return []
    own = Path("chapters") / f"{section.chapter}.ipynb"
    chapters = [path for path, names in names_by_chapter().items() if full in names.built]
    users = [path for path, names in names_by_chapter().items() if full in names.used]
    chapters += [own] if isinstance(node, ast.ClassDef) or own in users else []
    found = list(dict.fromkeys([*chapters, *users]))[:_MOST_CHAPTERS]
    return [f"Chapters: {', '.join(_chapter_link(path) for path in found)}", ""] if found else []


def _chapter_link(path: Path) -> str:
    return f":doc:`{title(ROOT / path)} </{path.with_suffix('').as_posix()}>`"


def _indented(lines: list[str]) -> list[str]:
    return [f"{_INDENT}{line}" if line else "" for line in lines]
