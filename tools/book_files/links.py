"""Links inside one file: a page of the book, a section and a cited work are places in it, all else lies outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import unquote, urlsplit

from addresses import Addresses
from citations import Bibliography

_REFERENCE = "reference."


@dataclass(frozen=True)
class InnerAddresses(Addresses):
    """Addresses, where a page of the book is ``#id`` and a section of it ``#id.section``.

    Fields:
        pages: the id of each page that the file holds, by its path relative to the root. Other pages of the book
            are looked up on the site.
    """

    pages: Mapping[Path, str] = field(default_factory=dict)

    @classmethod
    def of(cls, addresses: Addresses, pages: Mapping[Path, str]) -> InnerAddresses:
        """Return the addresses of a checkout, with these pages inside."""
        return cls(**{one.name: getattr(addresses, one.name) for one in fields(addresses)}, pages=pages)

    def page(self, path: Path) -> str:
        """Return the place of a page, or its address on the site."""
        return f"#{self.pages[path]}" if path in self.pages else super().page(path)

    def resolve(self, target: str, page: Path) -> str:
        """Return where a link leads that stands on the page ``page``, which is given relative to the root."""
        name, _, anchor = target.partition("#")
        path = Path(os.path.normpath(page.parent / name)) if name else page
        if urlsplit(target).scheme:
            return target
        if path in self.pages:
            return f"#{self.pages[path]}" + (f".{unquote(anchor)}" if anchor else "")
        if path.suffix == ".zip":  # the site alone has them
            return self.site + path.as_posix()
        return super().resolve(target, page)


class InnerWorks(Bibliography):
    """A bibliography whose citations lead to the list at the end of the book."""

    def address(self, key: str) -> str:
        """Return the place of a work in the list."""
        self._entry(key)  # an unknown key is refused
        return f"#{_REFERENCE}{key}"

    def list(self, keys: Iterable[str]) -> list[tuple[str, str]]:
        """Return id and Markdown of each work, in the order of names and years."""
        order = sorted(keys, key=lambda key: (self.in_brackets([key]).casefold(), key))
        return [(f"{_REFERENCE}{key}", self.references({key}).removeprefix("* ")) for key in order]
