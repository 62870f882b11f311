"""Print what pyproject.toml promises as lowest versions, as constraints for pip: ``typer==0.15.4`` and so on.

    python tools/lowest.py > lowest.txt

``make lowest`` (``tools/versions.sh``) installs exactly these and runs the quick tests there, so that a bound that is
too low is seen.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
# These run the tests and build the site; no user of the package has them because of it.
TOOLS = {"book", "dev"}
# Of the tools, these are other implementations that folders go to and come from: their lowest version is a promise.
REFERENCES = {"transformers"}


def constraints(project: dict[str, list[str]], torch: str = "") -> list[str]:
    """Return a line ``name==version`` for each requirement with a lower bound, each once.

    Args:
        project: the requirements by extra; the package's own under an empty name.
        torch: a version to use in place of PyTorch's lower bound, of which there may be no wheel without CUDA.
    """
    lowest = dict(_bounds(project))
    if torch:
        lowest["torch"] = torch
    return [f"{name}=={version}" for name, version in sorted(lowest.items())]


def _bounds(project: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for extra, requirements in project.items():
        for requirement in map(Requirement, requirements):
            if extra in TOOLS and requirement.name not in REFERENCES:
                continue
            if version := _lower_bound(str(part) for part in requirement.specifier):
                yield requirement.name, version


def _lower_bound(specifiers: Iterable[str]) -> str:
    return next((part.removeprefix(">=") for part in specifiers if part.startswith(">=")), "")


def main() -> None:
    """Print the constraints; ``$TORCH`` is the version of PyTorch to use in place of its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = {"": project["dependencies"], **project["optional-dependencies"]}
    print("\n".join(constraints(requirements, os.environ.get("TORCH", ""))))


if __name__ == "__main__":
    main()
