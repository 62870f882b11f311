"""What the tokenizer in JavaScript must know of characters: the tables that Python has, written as a module.

A browser knows Unicode, too, but another version of it than Python, and other ones than a reader's next browser. So the
tables of :mod:`d2lbert.text.normalization` are written out, and nothing is left to the browser.

    python -m d2lbert.deploy.browser.unicode_tables    # writes js/unicode.js anew
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

from d2lbert.storage.files import write_text
from d2lbert.text.normalization import clean_character, is_chinese, is_control, is_mark, is_punctuation

MODULE = Path(__file__).parent / "js" / "unicode.js"
_WIDTH = 118
# Syllables of Hangul are taken apart by arithmetic (The Unicode Standard, section 3.12), in JavaScript too.
_HANGUL = range(0xAC00, 0xD7A4)
# Planes 4 to 13 hold no character, nor will they for a long time.
_CODES = (*range(0x40000), *range(0xE0000, sys.maxunicode + 1))


def ranges(belongs: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return the ranges of code points, both ends included, of the characters that a function is true of."""
    found: list[tuple[int, int]] = []
    for code in _CODES:
        if belongs(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1] = found[-1][0], code
            else:
                found.append((code, code))
    return found


def is_any_mark(character: str) -> bool:
    """Whether a character belongs to the letter before it: every kind of mark."""
    return unicodedata.category(character).startswith("M")


def is_word_character(character: str) -> bool:
    """Whether a character may stand in a word of :func:`d2lbert.text.split_words`, which cuts by a pattern."""
    if character.isalnum() or character == "_":
        return True
    return 0x300 <= ord(character) < 0x10000 and is_any_mark(character)


def without_marks() -> dict[int, str]:
    """Return what is left of each character that loses its accents, where it changes; marks and Hangul are left out."""

    def stripped(character: str) -> str:
        return character if is_mark(character) else clean_character(character, lowercase=False, strip_accents=True)

    return _changes(stripped)


def in_lower_case() -> dict[int, str]:
    """Return each character in lower case, where it changes."""
    return _changes(str.lower)


def _changes(function: Callable[[str], str]) -> dict[int, str]:
    found = {}
    for code in _CODES:
        character = chr(code)
        if code in _HANGUL or is_control(character) or character.isspace():
            continue
        changed = function(character).replace(" ", "")  # what stands alone has spaces around it
        if changed != character:
            found[code] = changed
    return found


def module() -> str:
    """Return the text of ``unicode.js``."""
    lists = {
        "control": ("dropped", is_control),
        "white": ("white space; control characters are asked for first", str.isspace),
        "punctuation": ("a word of its own", is_punctuation),
        "chinese": ("an ideograph, a word of its own", is_chinese),
        "mark": ("a non-spacing mark, dropped with the accents", is_mark),
        "anyMark": ("belongs to the letter before it", is_any_mark),
        "wordCharacter": ("may stand in a word that is tagged", is_word_character),
    }
    lines = [
        "// Written by d2lbert/deploy/browser/unicode_tables.py; change that file, not this one.",
        f"// Unicode {unicodedata.unidata_version}. Numbers are hexadecimal, and small, since they are differences.",
        "// A range is GAP or GAP-LENGTH: how far after the last code point it begins, and how far on it ends.",
        "",
    ]
    for name, (meaning, belongs) in lists.items():
        lines += [f"// {meaning}", *_constant(name, _as_gaps(ranges(belongs)))]
    for name, meaning, changes in (
        ("withoutMarks", "what is left without accents", without_marks()),
        ("lower", "in lower case", in_lower_case()),
    ):
        told = f"// {meaning}, GAP:STEP: how far after the last one a character is, and from it to what it becomes"
        lines += [told, *_constant(name, _as_steps(changes))]
    return "\n".join(lines) + "\n"


def _as_gaps(found: list[tuple[int, int]]) -> Iterable[str]:
    """Yield each range as its distance from the end of the one before, and its length where it is not 0."""
    before = 0
    for first, last in found:
        yield f"{first - before:x}" if first == last else f"{first - before:x}-{last - first:x}"
        before = last


def _as_steps(changes: dict[int, str]) -> Iterable[str]:
    """Yield each change as the distance from the character before, and the steps to the new ones, joined by +."""
    before = 0
    for code, text in changes.items():
        yield f"{code - before:x}:{'+'.join(f'{ord(part) - code:x}' for part in text)}"
        before = code


def _constant(name: str, items: Iterable[str]) -> list[str]:
    """Return the lines of a constant that holds items with spaces between them."""
    lines, line = [f"export const {name} = `"], ""
    for item in items:
        if len(line) + len(item) + 1 > _WIDTH:
            lines.append(line)
            line = item
        else:
            line = f"{line} {item}".strip()
    return [*lines, line, "`;"]


if __name__ == "__main__":
    write_text(MODULE, module())
