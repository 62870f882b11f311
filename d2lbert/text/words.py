"""Split a text into words by a simple rule, and count them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

# A word is a run of letters, digits and underscores, with apostrophes or hyphens inside; any other sign stands alone.
_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


def split_words(text: str, lowercase: bool = True) -> list[str]:
    """Return the words and punctuation marks of a text, in order.

    ``"It's well-known."`` gives ``["it's", "well-known", "."]``. This suits languages that write spaces.
    Word vectors and n-gram counts need no more; a model needs a tokenizer that leaves nothing unknown.
    """
    return _WORD.findall(text.lower() if lowercase else text)


def count_words(lines: Iterable[str], lowercase: bool = True) -> Counter[str]:
    """Count the words of many lines."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_words(line, lowercase))
    return counts
