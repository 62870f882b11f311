"""The page of errata: what a page said in a released version, and what is right, from the changelog.

A version in ``CHANGELOG.md`` may have a part ``### Errata``, whose entries begin with a link to a page. They are errors
of the version before.
"""

from __future__ import annotations

import re
from pathlib import Path

from addresses import read_addresses

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = "CHANGELOG.md"
PAGE = Path("errata.md")  # made of the changelog wherever it is wanted; no file of the checkout
_VERSION = re.compile(r"^## (.+)$", re.MULTILINE)
_ERRATA = re.compile(r"^### Errata\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_INTRODUCTION = """# Errata

What a page of a released version said wrongly, and what is right. Have you found another error?
[Tell us]({issues}), with the name of the page and the sentence.
"""


def errata(changelog: str) -> dict[str, str]:
    """Return the errors of each version, newest first, as a list in Markdown.

    Raises:
        ValueError: the oldest version has errata, which cannot be of one before it.
    """
    names, texts = _VERSION.findall(changelog), _VERSION.split(changelog)[2::2]
    found = {}
    for place, (name, text) in enumerate(zip(names, texts, strict=True)):
        part = _ERRATA.search(text)
        if part is None:
            continue
        if place + 1 == len(names):
            raise ValueError(f"{CHANGELOG}: {name} is the oldest version, so it mends no error of another")
        found[names[place + 1]] = part[1].strip()
    return found


def page(changelog: str, repository: str) -> str:
    """Return the page of errata; ``repository`` is the address where errors are reported."""
    parts = [f"## Version {version}\n\n{entries}" for version, entries in errata(changelog).items()]
    introduction = _INTRODUCTION.format(issues=f"{repository}/issues").strip()
    return "\n\n".join([introduction, *(parts or ["No error is known."])]) + "\n"


def errata_page(root: Path) -> str:
    """Return the page of the checkout at ``root``."""
    return page((root / CHANGELOG).read_text(encoding="utf-8"), read_addresses(root).repository)


def write_errata(source: Path) -> None:
    """Write the page into the folder ``source``."""
    (source / PAGE).write_text(errata_page(ROOT), encoding="utf-8")
