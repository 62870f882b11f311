"""Turn encoded texts of unequal length into rectangular batches, by padding or by packing.

Shape legend: N texts, R rows, L length of a row. Padding puts one text into a row and fills the rest; packing puts
several texts into a row, so that hardly anything is wasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from d2lbert.text.wordpiece import Encoding

# A packed row is at least this long. Attention costs L multiplications per token and head column, the linear layers
# D; up to a few hundred tokens the linear layers dominate, and a longer row wastes less.
SHORTEST_ROW = 128


@dataclass(frozen=True)
class Batch:
    """N texts in R rows. All arrays are int64.

    Fields:
        token_ids, segment_ids: (R, L).
        mask: (R, L), 1 for a token and 0 for padding.
        position_ids: (R, L), the place of a token in its own text.
        sequence_ids: (R, L), k for the k-th text of the row, 0 for padding.
        starts: (N, 2), row and column of the first token of each text, in the order the texts came in.
        packed: whether a row may hold several texts.
    """

    token_ids: np.ndarray
    segment_ids: np.ndarray
    mask: np.ndarray
    position_ids: np.ndarray
    sequence_ids: np.ndarray
    starts: np.ndarray
    packed: bool

    @property
    def num_tokens(self) -> int:
        """How many tokens are real."""
        return int(self.mask.sum())


def pad(encodings: Sequence[Encoding], pad_id: int = 0) -> Batch:
    """Put each text into a row of its own, all rows as long as the longest text."""
    longest = max(len(encoding.ids) for encoding in encodings)
    return _fill(encodings, [[index] for index in range(len(encodings))], longest, pad_id, packed=False)


def pack(encodings: Sequence[Encoding], width: int | None = None, pad_id: int = 0) -> Batch:
    """Put the texts into as few rows as first-fit decreasing finds.

    Args:
        encodings: the texts, each non-empty.
        width: the length of a row; by default the longest text or 128 tokens, whichever is more. A text longer than
            the width gets a row of its own length, so nothing is cut.
    """
    lengths = [len(encoding.ids) for encoding in encodings]
    width = max(max(lengths), width or SHORTEST_ROW)
    rows = first_fit_decreasing(lengths, width)
    longest = max(sum(lengths[index] for index in row) for row in rows)
    return _fill(encodings, rows, longest, pad_id, packed=True)


def first_fit_decreasing(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Assign texts to rows: longest first, each into the first row with enough room left.

    Uses at most 11/9 of the best possible number of rows, plus one (Johnson 1973).
    """
    rows: list[list[int]] = []
    room: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        for row, left in enumerate(room):
            if lengths[index] <= left:
                rows[row].append(index)
                room[row] -= lengths[index]
                break
        else:
            rows.append([index])
            room.append(width - lengths[index])
    return rows


def _fill(
    encodings: Sequence[Encoding], rows: Sequence[Sequence[int]], length: int, pad_id: int, packed: bool
) -> Batch:
    shape = (len(rows), length)
    token_ids = np.full(shape, pad_id, dtype=np.int64)
    segment_ids, position_ids, sequence_ids = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    starts = np.zeros((len(encodings), 2), dtype=np.int64)
    for row, members in enumerate(rows):
        column = 0
        for number, index in enumerate(members, start=1):
            encoding = encodings[index]
            end = column + len(encoding.ids)
            token_ids[row, column:end] = encoding.ids
            segment_ids[row, column:end] = encoding.segment_ids
            position_ids[row, column:end] = np.arange(end - column)
            sequence_ids[row, column:end] = number
            starts[index] = row, column
            column = end
    mask = (sequence_ids > 0).astype(np.int64)
    return Batch(token_ids, segment_ids, mask, position_ids, sequence_ids, starts, packed)
