"""Turn encoded texts of unequal length into rectangular batches, by padding or by packing.

Shape legend: N texts, R rows, L length of a row. Padding puts one text into a row and fills the rest; packing puts
several texts into a row, so that hardly anything is wasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from d2lbert.text import Encoding

# A packed row is about this long. Attention compares every token with every other of its row, so a long row costs
# more; a short one is harder to fill. Around a hundred tokens both costs are small beside the linear layers.
ROW_LENGTH = 96


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

    @property
    def lengths(self) -> np.ndarray:
        """How many tokens each text has, (N,)."""
        rows, columns = self.starts.T
        return (self.sequence_ids[rows] == self.sequence_ids[rows, columns][:, None]).sum(1)


def pad(encodings: Sequence[Encoding], pad_id: int = 0) -> Batch:
    """Put each text into a row of its own, all rows as long as the longest text."""
    longest = max(len(encoding.ids) for encoding in encodings)
    return _fill(encodings, [[index] for index in range(len(encodings))], longest, pad_id, packed=False)


def pack(encodings: Sequence[Encoding], width: int | None = None, pad_id: int = 0) -> Batch:
    """Put the texts into as few rows as first-fit decreasing finds.

    Args:
        encodings: the texts, each non-empty.
        width: the length of a row, at least that of the longest text, so that nothing is cut. By default the width
            near 96 tokens that leaves the least padding.
    """
    lengths = [len(encoding.ids) for encoding in encodings]
    rows = choose_rows(lengths, width)
    longest = max(sum(lengths[index] for index in row) for row in rows)
    return _fill(encodings, rows, longest, pad_id, packed=True)


def choose_rows(lengths: Sequence[int], width: int | None = None) -> list[list[int]]:
    """Choose which texts of the given lengths go into which row; ``width`` as in :func:`pack`."""
    return first_fit_decreasing(lengths, max(max(lengths), width)) if width else _tightest_rows(lengths)


def _tightest_rows(lengths: Sequence[int]) -> list[list[int]]:
    """Fix the number of rows, then find the smallest width at which the texts still fit into so many."""
    count = max(1, round(sum(lengths) / ROW_LENGTH))
    width = max(max(lengths), -(-sum(lengths) // count))
    while len(rows := first_fit_decreasing(lengths, width)) > count:
        width += 1
    return rows


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
