"""Print requirements/lock.txt: the exact versions, in this environment, of all that the book and its tests need.

    .venv/bin/python tools/lock.py > requirements/lock.txt

Only what pyproject.toml asks for, directly or through others, is written: what else lies in the environment stays out.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
# Beside pyproject.toml: the theme, whose newer versions show two search bars, and what d2l imports.
FURTHER = ["sphinx-book-theme", "pydata-sphinx-theme", "pandas"]
HEADER = "# Exact versions that the book and its tests run with, written by tools/lock.py."


def needed(roots: list[str]) -> dict[str, str]:
    """Return name -> version of the given requirements and of everything that they require here."""
    found: dict[str, str] = {}
    waiting = [(Requirement(root), "") for root in roots]
    seen = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        wanted = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if wanted in seen:
            continue
        seen.add(wanted)
        distribution = importlib.metadata.distribution(requirement.name)
        # A local version (torch 2.13.0+cpu) names a build for one machine; any build of that version will do.
        found[wanted[0]] = distribution.version.partition("+")[0]
        for line in distribution.requires or []:
            waiting += [(Requirement(line), extra) for extra in ("", *requirement.extras)]
    return found


def main() -> None:
    """Print the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for group in project["optional-dependencies"].values() for line in group]
    versions = needed([*project["dependencies"], *extras, *FURTHER])
    print("\n".join([HEADER, *(f"{name}=={version}" for name, version in sorted(versions.items()))]))


if __name__ == "__main__":
    main()
