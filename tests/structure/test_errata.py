"""The page of errata is what the changelog says, version by version, and its links lead to pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from errata import errata, page

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

## 0.3.0

* New.

### Errata

* [A](a.ipynb) said x. It is y.

## 0.2.0

### Errata

* [B](b.ipynb) said z.

## 0.1.0

The first.
"""


def test_errors_are_those_of_the_version_before() -> None:
    assert errata(CHANGELOG) == {"0.2.0": "* [A](a.ipynb) said x. It is y.", "0.1.0": "* [B](b.ipynb) said z."}
    made = page(CHANGELOG, "https://example.org/book")
    assert "(https://example.org/book/issues)" in made
    assert made.index("## Version 0.2.0") < made.index("said x") < made.index("## Version 0.1.0") < made.index("said z")


def test_without_errata_the_page_says_so() -> None:
    assert "No error is known." in page("# Changelog\n\n## 0.1.0\n\nThe first.\n", "https://example.org")


def test_the_oldest_version_has_none() -> None:
    with pytest.raises(ValueError, match=r"0\.1\.0 is the oldest"):
        errata("## 0.1.0\n\n### Errata\n\n* x\n")


def test_every_entry_names_a_page_of_the_book() -> None:
    for entries in errata((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")).values():
        for entry in re.split(r"^\* ", entries, flags=re.MULTILINE)[1:]:
            link = re.match(r"\[[^]]+\]\(([^)]+)\) ", entry)
            assert link is not None, entry
            assert (ROOT / link[1]).is_file(), entry
