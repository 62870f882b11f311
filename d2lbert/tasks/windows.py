"""Cut a text that is too long for the model into overlapping windows (Devlin et al. 2019, the released code).

Lengths are counted in pieces of the tokenizer. The window moves by ``stride`` pieces until it reaches the text's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from d2lbert.errors import UserError


class Window(NamedTuple):
    """The pieces ``begin`` to ``end`` of a text; ``end`` itself is not included."""

    begin: int
    end: int


def cut_into_windows(length: int, room: int, stride: int | None = None) -> list[Window]:
    """Return the windows of a text.

    Args:
        length: pieces of the text, at least 1.
        room: pieces that a window can hold.
        stride: pieces by which the window moves; None for half of ``room``, so that neighbours overlap by half.

    Raises:
        UserError: ``room`` is below 1, or the stride would skip pieces.
    """
    if room < 1:
        raise UserError("no room is left for the text: give a larger max_length")
    step = max(1, room // 2) if stride is None else stride
    if not 1 <= step <= room:
        raise UserError(f"stride {stride} does not fit windows of {room} pieces: give 1 to {room}")
    windows = [Window(0, min(room, length))]
    while windows[-1].end < length:
        begin = windows[-1].begin + step
        windows.append(Window(begin, min(begin + room, length)))
    return windows


def most_context(windows: Sequence[Window]) -> list[np.ndarray]:
    """Return for each window a mask (length,): True for the pieces that have the most context in this window.

    The context of a piece in a window is its distance to the nearer end of the window. Where two windows give a piece
    the same context, it belongs to the first. So every piece is True in exactly one window.
    """
    length = windows[-1].end
    best = np.full(length, -1)  # the most context so far, and the window that gives it
    owner = np.zeros(length, dtype=np.int64)
    for number, (begin, end) in enumerate(windows):
        positions = np.arange(begin, end)
        context = np.minimum(positions - begin, end - 1 - positions)
        more = context > best[begin:end]
        owner[begin:end][more] = number
        best[begin:end][more] = context[more]
    return [owner[window.begin : window.end] == number for number, window in enumerate(windows)]
