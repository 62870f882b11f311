"""Turn encoded texts of unequal length into rectangular batches, by padding or by packing.

Shape legend: N texts, R rows, L length of a row. Padding puts one text into a row and fills the rest; packing puts
several texts into a row, so that hardly anything is wasted.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from d2lbert.errors import UserError
from d2lbert.text import AnyEncoding

# Attention compares every token with every other token of its row. Counted in operations, in a row of L tokens it adds
# L / (6 D) to what linear layers of D features do. Each of its operations takes longer, so we count L / 1000. A row of
# about a hundred tokens is cheap and can be filled; where one text takes most of it, a row half as long again leaves
# fewer gaps.
LENGTH_THAT_DOUBLES = 1000
ROW_LENGTH = 96
MANY_ROWS = 50  # above this number, one row that is nearly empty costs almost nothing


@dataclass(frozen=True)
class Batch:
    """N texts in R rows. All arrays are int64.

    Fields:
        token_ids, segment_ids: (R, L).
        mask: (R, L), 1 for a token and 0 for padding.
        position_ids: (R, L), the position of a token in its own text.
        sequence_ids: (R, L), k for the k-th text of the row, 0 for padding.
        starts: (N, 2), row and column of the first token of each text, in the order of the input.
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
        """The number of tokens without padding."""
        return int(self.mask.sum())

    @property
    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, (N,)."""
        rows, columns = self.starts.T
        return (self.sequence_ids[rows] == self.sequence_ids[rows, columns][:, None]).sum(1)


def pad(encodings: Sequence[AnyEncoding], pad_id: int = 0) -> Batch:
    """Put each text into a row of its own; all rows are as long as the longest text.

    Args:
        encodings: the texts, N of them, at least one.
        pad_id: the id of the padding token.

    Raises:
        UserError: there is no text, or one without tokens.
    """
    lengths = [len(encoding.ids) for encoding in encodings]
    _check_lengths(lengths)
    return _fill(encodings, [[index] for index in range(len(encodings))], max(lengths), pad_id, packed=False)


def pack(encodings: Sequence[AnyEncoding], width: int | None = None, pad_id: int = 0) -> Batch:
    """Put the texts into as few rows as best-fit decreasing finds.

    Args:
        encodings: the texts, each non-empty.
        width: the length of a row in tokens; raised to that of the longest text, so that nothing is cut. By default it
            is near 96, or half as long again as the longest text if that saves time (:func:`choose_rows`).
        pad_id: the id of the padding token.

    Raises:
        UserError: there is no text, or one without tokens.
    """
    lengths = [len(encoding.ids) for encoding in encodings]
    _check_lengths(lengths)
    rows = choose_rows(lengths, width)
    longest = max(sum(lengths[index] for index in row) for row in rows)
    return _fill(encodings, rows, longest, pad_id, packed=True)


def _check_lengths(lengths: Sequence[int]) -> None:
    if not lengths:
        raise UserError("no texts to make a batch of: give at least one")
    if min(lengths) == 0:
        raise UserError(f"text {list(lengths).index(0)} of the batch has no tokens: leave it out")


def choose_rows(lengths: Sequence[int], width: int | None = None) -> list[list[int]]:
    """Return the indices of the texts of each row.

    Args:
        lengths: (N,), of the texts, in tokens.
        width: as in :func:`pack`. Without it rows of two widths are tried, and those that cost less to compute are
            returned.
    """
    if width:
        return best_fit_decreasing(lengths, max(max(lengths), width))
    longest = max(lengths)
    longer = longest * 3 // 2
    if longer <= ROW_LENGTH:
        return _tightest_rows(lengths, ROW_LENGTH)
    candidates = [best_fit_decreasing(lengths, max(longest, ROW_LENGTH)), _tightest_rows(lengths, longer)]
    return min(candidates, key=lambda rows: _cost(rows, lengths))


def _cost(rows: list[list[int]], lengths: Sequence[int]) -> float:
    width = max(sum(lengths[index] for index in row) for row in rows)
    return len(rows) * width * (1 + width / LENGTH_THAT_DOUBLES)


def _tightest_rows(lengths: Sequence[int], row_length: int) -> list[list[int]]:
    """Fix the number of rows, then find the smallest width at which the texts still fit into that many rows."""
    count = max(1, round(sum(lengths) / row_length))
    longest = max(lengths)
    if count > MANY_ROWS:
        return best_fit_decreasing(lengths, max(longest, row_length))
    smallest = max(longest, -(-sum(lengths) // count))
    # If smallest + longest needed one row more, every other row would hold more than smallest: more tokens than exist.
    widths = range(smallest, smallest + longest)
    extra = bisect.bisect_left(widths, -count, key=lambda width: -len(best_fit_decreasing(lengths, width)))
    return best_fit_decreasing(lengths, smallest + extra)


def best_fit_decreasing(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Assign texts to rows: the longest first, each into the fullest row that still has room for it.

    Uses at most 11/9 of the best possible number of rows, plus one (Johnson 1973).

    Args:
        lengths: (N,), of the texts, in tokens, none above ``width``.
        width: the length of a row, in tokens.

    Returns:
        The indices of the texts of each row.
    """
    rows: list[list[int]] = []
    free: list[tuple[int, int]] = []  # the free space of each row, and the row's index, sorted
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        position = bisect.bisect_left(free, (lengths[index], 0))
        if position < len(free):
            space, row = free.pop(position)
        else:
            space, row = width, len(rows)
            rows.append([])
        rows[row].append(index)
        bisect.insort(free, (space - lengths[index], row))
    return rows


def _fill(
    encodings: Sequence[AnyEncoding], rows: Sequence[Sequence[int]], length: int, pad_id: int, packed: bool
) -> Batch:
    shape = (len(rows), length)
    token_ids = np.full(shape, pad_id, dtype=np.int64)
    segment_ids, position_ids, sequence_ids = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    starts = np.zeros((len(encodings), 2), dtype=np.int64)
    for row, members in enumerate(rows):
        column = 0
        for number, index in enumerate(members, start=1):
            encoding = encodings[index]
            ids = encoding.ids
            end = column + len(ids)
            token_ids[row, column:end] = ids
            segment_ids[row, column:end] = encoding.segment_ids
            position_ids[row, column:end] = np.arange(end - column)
            sequence_ids[row, column:end] = number
            starts[index] = row, column
            column = end
    mask = (sequence_ids > 0).astype(np.int64)
    return Batch(token_ids, segment_ids, mask, position_ids, sequence_ids, starts, packed)
