"""A Sphinx extension: citations alike in the text and in the list of references, such as ``Devlin et al., 2019``.

Where two works would read the same, the years get letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pybtex.database import Entry
from pybtex.plugin import register_plugin
from pybtex.style.formatting.plain import Style as PlainStyle
from pybtex.style.labels import BaseLabelStyle
from sphinx.application import Sphinx

STYLE = "book"  # as _config.yml calls it


class AuthorYearLabels(BaseLabelStyle):
    """Labels such as ``Devlin et al., 2019``; two with the same words are 2019a and 2019b, in the order of the list."""

    def format_labels(self, sorted_entries: Iterable[Entry]) -> Iterator[str]:
        """Yield the label of each entry."""
        entries = list(sorted_entries)
        plain = [f"{_authors(entry)}, {entry.fields.get('year', 'no year')}" for entry in entries]
        counts, seen = Counter(plain), Counter[str]()
        for label in plain:
            letter = chr(ord("a") + seen[label]) if counts[label] > 1 else ""
            seen[label] += 1
            yield f"{label}{letter}"


class BookStyle(PlainStyle):
    """Entries by author, year and title."""

    default_label_style = AuthorYearLabels
    default_sorting_style = "author_year_title"


def _authors(entry: Entry) -> str:
    people = entry.persons.get("author") or entry.persons.get("editor") or []
    names = [_surname(person) for person in people]
    if "others" in names or len(names) > 2:
        return f"{names[0]} et al."
    return " and ".join(names) or entry.key


def _surname(person: Any) -> str:
    """Return the last name of a person, without the commands of TeX."""
    return " ".join(str(name) for name in [*person.rich_prelast_names, *person.rich_last_names])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    register_plugin("pybtex.style.formatting", STYLE, BookStyle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
