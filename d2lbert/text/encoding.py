"""The input of BERT, ``[CLS] a [SEP] b [SEP]``, put together from pieces of text (Devlin et al. 2019)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from d2lbert.errors import UserError

PAD, UNKNOWN, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIAL_TOKENS = (PAD, UNKNOWN, CLS, SEP, MASK)


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text, or a pair of texts, as the input of a model. All lists have one entry per token.

    Fields:
        ids: the token's row in the embedding matrix.
        segment_ids: 0 for the first text and its special tokens, 1 for the second.
        tokens: the pieces, in readable form.
        offsets: (start, end) of the token in characters of its text; (0, 0) for tokens that were added.
        special: True for the ``[CLS]`` and ``[SEP]`` that were added.
    """

    ids: list[int]
    segment_ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    special: list[bool]

    def __len__(self) -> int:
        return len(self.ids)

    def tokens_between(self, start: int, end: int, segment: int = 0) -> list[int]:
        """Return the positions of the tokens that overlap the characters ``start`` to ``end`` of the text ``segment``.

        ``end`` is exclusive. Added tokens never count. The list is empty where the text was cut off before ``start``,
        or where the characters are white space.
        """
        return [
            position
            for position, (left, right) in enumerate(self.offsets)
            if not self.special[position] and self.segment_ids[position] == segment and left < end and right > start
        ]


class CompactEncoding:
    """An :class:`Encoding` in a fraction of the memory, for hundreds of thousands of texts.

    The numbers stand in one array and equal pieces are one string. The fields are those of :class:`Encoding`; each is
    made anew as a list where it is read, so keep it in a variable where a loop needs it.

    Args:
        encoding: what to keep.
    """

    __slots__ = ("_numbers", "_pieces")

    def __init__(self, encoding: Encoding) -> None:
        starts, ends = zip(*encoding.offsets, strict=True)
        # Rows: ids, segment ids, starts, ends, special. Offsets may exceed 16 bits, as ids may.
        self._numbers = np.array([encoding.ids, encoding.segment_ids, starts, ends, encoding.special], dtype=np.int32)
        self._pieces = tuple(map(sys.intern, encoding.tokens))

    def __len__(self) -> int:
        return len(self._pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompactEncoding) and self.unpacked() == other.unpacked()

    def __hash__(self) -> int:
        return hash(self._pieces)

    def __repr__(self) -> str:
        return f"CompactEncoding({self.unpacked()!r})"

    @property
    def ids(self) -> list[int]:
        """The token's row in the embedding matrix."""
        return self._row(0)

    @property
    def segment_ids(self) -> list[int]:
        """0 for the first text and its special tokens, 1 for the second."""
        return self._row(1)

    @property
    def tokens(self) -> list[str]:
        """The pieces, in readable form."""
        return list(self._pieces)

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """(start, end) of the token in characters of its text; (0, 0) for tokens that were added."""
        return list(zip(self._row(2), self._row(3), strict=True))

    @property
    def special(self) -> list[bool]:
        """True for the ``[CLS]`` and ``[SEP]`` that were added."""
        return [flag == 1 for flag in self._row(4)]

    def tokens_between(self, start: int, end: int, segment: int = 0) -> list[int]:
        """Return what :meth:`Encoding.tokens_between` returns."""
        return self.unpacked().tokens_between(start, end, segment)

    def unpacked(self) -> Encoding:
        """Return the encoding with lists."""
        return Encoding(self.ids, self.segment_ids, self.tokens, self.offsets, self.special)

    def _row(self, index: int) -> list[int]:
        row: list[int] = self._numbers[index].tolist()
        return row


AnyEncoding = Encoding | CompactEncoding


class Pieces(NamedTuple):
    """The pieces of one text, without special tokens around them."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    def first(self, count: int) -> Pieces:
        """Return the first ``count`` pieces."""
        return self.between(0, count)

    def between(self, start: int, end: int) -> Pieces:
        """Return the pieces from ``start`` to ``end``, which is exclusive."""
        return Pieces(self.ids[start:end], self.tokens[start:end], self.offsets[start:end])


def assemble(a: Pieces, b: Pieces | None, max_length: int | None, token_to_id: dict[str, int]) -> Encoding:
    """Put ``[CLS]`` and ``[SEP]`` around the pieces, after cutting them to ``max_length`` tokens in all.

    Args:
        a: the first text.
        b: the second text; None for a single text.
        max_length: the largest number of tokens, special tokens included; None for no limit.
        token_to_id: the vocabulary.

    Raises:
        UserError: ``max_length`` leaves no room for a single piece.
    """
    if max_length is not None:
        added = 2 if b is None else 3
        if max_length <= added:
            raise UserError(
                f"max_length {max_length} is too small: [CLS] and [SEP] take {added} tokens; give {added + 1} or more"
            )
        a, b = truncate(a, b, max_length - added)
    cls, sep = token_to_id[CLS], token_to_id[SEP]
    encoding = Encoding(
        ids=[cls, *a.ids, sep],
        segment_ids=[0] * (len(a.ids) + 2),
        tokens=[CLS, *a.tokens, SEP],
        offsets=[(0, 0), *a.offsets, (0, 0)],
        special=[True, *[False] * len(a.ids), True],
    )
    if b is not None:
        encoding.ids.extend([*b.ids, sep])
        encoding.segment_ids.extend([1] * (len(b.ids) + 1))
        encoding.tokens.extend([*b.tokens, SEP])
        encoding.offsets.extend([*b.offsets, (0, 0)])
        encoding.special.extend([*[False] * len(b.ids), True])
    return encoding


def assemble_batch(
    firsts: Sequence[Pieces], seconds: Sequence[Pieces] | None, max_length: int | None, token_to_id: dict[str, int]
) -> list[Encoding]:
    """Assemble many texts, or many pairs, with :func:`assemble`.

    Raises:
        UserError: the numbers of first and second texts differ, or ``max_length`` is too small.
    """
    if seconds is None:
        return [assemble(a, None, max_length, token_to_id) for a in firsts]
    if len(seconds) != len(firsts):
        raise UserError(f"{len(firsts):,} texts but {len(seconds):,} pairs: give one second text for each first")
    return [assemble(a, b, max_length, token_to_id) for a, b in zip(firsts, seconds, strict=True)]


def without_surrogates(text: str) -> str:
    """Return a text without lone surrogates, which are no characters and which the `tokenizers` library refuses."""
    return text.encode("utf-8", "ignore").decode()


def offsets_before(text: str, clean: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return offsets in a text from those in what :func:`without_surrogates` made of it."""
    if len(clean) == len(text):
        return offsets
    places = [index for index, character in enumerate(text) if not "\ud800" <= character <= "\udfff"]
    return [(places[start], places[end - 1] + 1) if end > start else (start, end) for start, end in offsets]


def truncate(a: Pieces, b: Pieces | None, room: int) -> tuple[Pieces, Pieces | None]:
    """Cut the texts to ``room`` pieces in all, the longer text first.

    Where both texts must be cut and ``room`` is odd, the longer text keeps the odd piece; of equal texts, the second
    does. The `tokenizers` library does the same; BERT's own release always gave the odd piece to the first text.
    """
    if b is None:
        return a.first(room), None
    if len(a.ids) + len(b.ids) <= room:
        return a, b
    shorter = min(len(a.ids), len(b.ids), room // 2)
    longer = room - shorter
    if len(a.ids) > len(b.ids):
        return a.first(longer), b.first(shorter)
    return a.first(shorter), b.first(longer)
