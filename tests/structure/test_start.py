"""Notation and glossary: every link leads to a section that is there."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from chapter_rules import prose
from deck_pages import slug

START = Path(__file__).resolve().parents[2] / "chapters" / "start"
LINK = re.compile(r"\]\((\.\./[^)#]+)(?:#([^)]+))?\)")


def dead_links(text: str) -> list[str]:
    """Links of a page in ``chapters/start`` that lead to no chapter, or to no section of it."""
    dead = []
    for path, anchor in LINK.findall(text):
        target = START / path
        if not target.is_file():
            dead.append(path)
        elif anchor:
            headings = re.findall(r"^##? (.+)$", "\n".join(prose(nbformat.read(target, as_version=4))), re.MULTILINE)
            if anchor not in {slug(heading) for heading in headings}:
                dead.append(f"{path}#{anchor}")
    return dead


@pytest.mark.parametrize("page", ["notation", "glossary"])
def test_links_are_alive(page: str) -> None:
    text = (START / f"{page}.md").read_text(encoding="utf-8")
    assert LINK.search(text)
    assert not dead_links(text)


def test_a_dead_link_is_seen() -> None:
    assert dead_links("[a](../bert/bert.ipynb#nothing) [b](../bert/none.ipynb) [c](../bert/bert.ipynb#exercises)") == [
        "../bert/bert.ipynb#nothing",
        "../bert/none.ipynb",
    ]


def test_terms_of_the_glossary_stand_in_order_and_once() -> None:
    terms = re.findall(r"^\| \[([^\]]+)\]", (START / "glossary.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(terms) > 80
    assert terms == sorted(set(terms), key=str.lower)
