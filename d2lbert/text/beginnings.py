"""Encode no more of a long text than a model reads: of ten megabytes and 128 tokens, the first thousands of characters.

The pieces must be those of the whole text. BERT's words end before white space and punctuation marks, whatever follows,
so a text may be cut before such a sign if enough pieces stand before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from d2lbert.text.encoding import Pieces

PiecesOf = Callable[[Sequence[str]], list[Pieces]]

# A text of so many characters for each wanted piece, and some more, nearly always has enough pieces.
_CHARACTERS, _MORE = 20, 2000
# Signs before which a word ends. No special token such as [MASK] holds one, and none combines with what is before it.
_BOUNDARY = re.compile(r"[ \t\n\r.,;:!?。，]")


def beginning(text: str, count: int) -> str:
    """Return as much of a text as should have ``count`` pieces, up to the end of a word; a short text as it is."""
    boundary = _BOUNDARY.search(text, _CHARACTERS * count + _MORE)
    return text if boundary is None else text[: boundary.start()]


def first_pieces(
    texts: Sequence[str], pairs: Sequence[str] | None, count: int, pieces_of: PiecesOf
) -> tuple[list[Pieces], list[Pieces] | None]:
    """Return pieces of texts, and of their partners, that give the same as all pieces once they are cut to ``count``.

    Args:
        texts: N texts.
        pairs: their partners; None for single texts.
        count: the most pieces that are kept of a text, or of a pair.
        pieces_of: gives the pieces of texts.
    """
    pieces_of = _each_once(pieces_of)
    firsts = _at_least(texts, count, pieces_of)
    if pairs is None:
        return firsts, None
    seconds = _at_least(pairs, count, pieces_of)
    # The longer text of a pair is cut first, and of a text that was not read to its end we know only the least length.
    for index, (a, b) in enumerate(zip(texts, pairs, strict=False)):
        open_a, open_b = (len(beginning(text, count)) < len(text) for text in (a, b))
        length_a, length_b = len(firsts[index].ids), len(seconds[index].ids)
        if open_a and (open_b or length_a <= length_b):
            firsts[index] = pieces_of([a])[0]
        if open_b and (open_a or length_b <= length_a):
            seconds[index] = pieces_of([b])[0]
    return firsts, seconds


def _at_least(texts: Sequence[str], count: int, pieces_of: PiecesOf) -> list[Pieces]:
    """Return the pieces of the beginning of each text, or of the whole where the beginning has fewer than ``count``."""
    beginnings = [beginning(text, count) for text in texts]
    pieces = pieces_of(beginnings)
    for index, (text, start) in enumerate(zip(texts, beginnings, strict=True)):
        if len(start) < len(text) and len(pieces[index].ids) < count:
            pieces[index] = pieces_of([text])[0]
    return pieces


def _each_once(pieces_of: PiecesOf) -> PiecesOf:
    """Return the function as one that gives equal texts the same pieces: a premise is repeated with every choice."""
    known: dict[str, Pieces] = {}

    def pieces_of_new(texts: Sequence[str]) -> list[Pieces]:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(new, pieces_of(new), strict=True))
        return [known[text] for text in texts]

    return pieces_of_new
