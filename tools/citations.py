"""Citations as a reader without the site needs them: names and years in the text, with links, and a list at the end."""

from __future__ import annotations

from pathlib import Path

from pybtex.backends.markdown import Backend
from pybtex.database import Entry, Person, parse_file
from pybtex.style.formatting.plain import Style

from d2lbert.errors import UserError


class Bibliography:
    """The entries of a BibTeX file.

    Args:
        path: of the file.
        otherwise: the address for an entry that has none of its own.
    """

    def __init__(self, path: Path, otherwise: str) -> None:
        self._entries = parse_file(str(path)).entries
        self._otherwise = otherwise

    def in_brackets(self, keys: list[str]) -> str:
        """Return ``[Devlin et al., 2019](address); [Jain and Wallace, 2019](address)``, without the brackets."""
        return "; ".join(f"[{self._names(key)}, {self._year(key)}]({self.address(key)})" for key in keys)

    def in_text(self, keys: list[str]) -> str:
        """Return ``[Devlin et al. (2019)](address)``, several joined by commas."""
        return ", ".join(f"[{self._names(key)} ({self._year(key)})]({self.address(key)})" for key in keys)

    def address(self, key: str) -> str:
        """Return where the work can be found: its DOI, else its address, else the list of references of the site."""
        fields = self._entry(key).fields
        if "doi" in fields:
            return f"https://doi.org/{fields['doi']}"
        return str(fields.get("url", self._otherwise))

    def references(self, keys: set[str]) -> str:
        """Return the list of the works as Markdown, in the order of names and years."""
        order = sorted(keys, key=lambda key: (self._names(key).casefold(), self._year(key), key))
        formatted = Style().format_entries([self._entry(key) for key in order])
        return "\n".join("* " + entry.text.render(Backend()).replace("\n", " ") for entry in formatted)

    def _entry(self, key: str) -> Entry:
        try:
            return self._entries[key]
        except KeyError:
            raise UserError(f"no work {key!r} in references.bib: add it, or correct the citation") from None

    def _names(self, key: str) -> str:
        persons = self._entry(key).persons
        names = [_last_name(person) for person in persons.get("author") or persons["editor"]]
        return f"{names[0]} et al." if len(names) > 2 else " and ".join(names)

    def _year(self, key: str) -> str:
        return str(self._entry(key).fields["year"])


def _last_name(person: Person) -> str:
    return " ".join(str(part) for part in [*person.rich_prelast_names, *person.rich_last_names])
