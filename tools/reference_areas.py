"""What the reference holds: its pages, the modules on each, and the names that belong there.

``site/reference/<area>.md`` holds the words of a page. A line such as::

    <!-- d2lbert.torch.bert | bert/bert | BertModel, attention_mask -->

stands for a module, the chapter that explains it and, where not all of its public names belong there, those that do.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from chapter_names import Names, names_by_chapter
from package_source import PACKAGE, ROOT, definition, modules, resolve

PAGES = ROOT / "site" / "reference"
SECTION = re.compile(r"^<!-- (d2lbert[\w.]*) \| ([\w/]+)(?: \| ([\w, ]+))? -->$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """A module on a page: its name, the chapter that explains it (``part/slug``), and the names that are shown."""

    module: str
    chapter: str
    names: tuple[str, ...]

    @property
    def full_names(self) -> list[str]:
        """The names with their module."""
        return [f"{self.module}.{name}" for name in self.names]


def sections(text: str) -> list[Section]:
    """Return the sections that a page asks for.

    Raises:
        ValueError: a module or one of its names is not there.
    """
    found = []
    for name, chapter, listed in SECTION.findall(text):
        there = modules()[name].definitions if name in modules() else {}
        names = tuple(re.split(r",\s*", listed)) if listed else tuple(there)
        if missing := [one for one in names if one not in there]:
            raise ValueError(f"{name} defines no {', '.join(missing)}")
        if not there and name not in modules():
            raise ValueError(f"there is no module {name}")
        found.append(Section(name, chapter, names))
    return found


@functools.cache
def documented() -> dict[str, str]:
    """Return the page of each full name of the reference."""
    found = {}
    for path in sorted(PAGES.glob("*.md")):
        for section in sections(path.read_text(encoding="utf-8")):
            found |= dict.fromkeys(section.full_names, path.stem)
    return found


def reference_cell(names: Names) -> str:
    """Return what leads from a chapter to the reference: a box with links; empty where it would have none.

    A class that the chapter builds itself comes first, under the name that the package gives to the same thing.
    """
    built = _links(names.built)
    used = _links(name for name in names.used if name not in names.built)
    lines = [f"Built here, and in the package: {built}"] * bool(built) + [f"Used here: {used}"] * bool(used)
    body = "\n\n".join(lines)
    return f":::{{admonition}} In the reference\n:class: book-reference\n{body}\n:::" if body else ""


def _links(names: Iterable[str]) -> str:
    """Return links to the names that the reference has, in alphabetical order; the MXNet edition's say so."""
    known = sorted({name for name in names if name in documented()}, key=lambda name: (_shown(name).lower(), name))
    return " · ".join(f"{{py:obj}}`{_shown(name)} <{name}>`" for name in known)


def _shown(name: str) -> str:
    short = name.rpartition(".")[2]
    return f"mxnet.{short}" if name.startswith(f"{PACKAGE}.mxnet.") else short


def public_names() -> set[str]:
    """Return the public interface: what a package offers in ``__all__``, and what a chapter takes from a module."""
    offered = {f"{module.name}.{name}" for module in modules().values() for name in module.offered}
    found = {full for name in offered if (full := resolve(name))}
    for names in names_by_chapter().values():
        found |= set(names.used)
    return {name for name in found if definition(name) is not None}
