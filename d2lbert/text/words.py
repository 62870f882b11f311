"""Split a text into words by a simple rule, and count them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

# Accents and vowel signs that are characters of their own belong to the letter before them, but \w leaves them out.
# None lies below U+0300; those above U+FFFF are of scripts that are hardly typed.
_MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M"))
# A word is a run of letters, digits and underscores, with apostrophes or hyphens inside, or any other single sign.
_WORD = re.compile(rf"[\w{_MARKS}]+(?:['’-][\w{_MARKS}]+)*|[^\w\s]")


def split_words(text: str, lowercase: bool = True) -> list[str]:
    """Return the words and punctuation marks of a text, in order.

    ``"It's well-known."`` gives ``["it's", "well-known", "."]``. This suits languages that are written with spaces.
    Word vectors and n-gram counts need no more; a model needs a tokenizer to which no word is unknown.
    """
    return _WORD.findall(text.lower() if lowercase else text)


def count_words(lines: Iterable[str], lowercase: bool = True) -> Counter[str]:
    """Count the words of many lines."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_words(line, lowercase))
    return counts
