"""A text that is too long for the model, cut into windows that overlap (Devlin et al. 2019, the released code).

Counting is in pieces of the tokenizer. A window moves by ``stride`` pieces until the text's end is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from d2lbert.errors import UserError


class Window(NamedTuple):
    """The pieces ``begin`` to ``end`` of a text; ``end`` is the first that is out."""

    begin: int
    end: int


def cut_into_windows(length: int, room: int, stride: int | None = None) -> list[Window]:
    """Return the windows of a text.

    Args:
        length: of the text, in pieces, at least 1.
        room: pieces that a window can hold.
        stride: how far a window moves; None for half of ``room``, so that two windows share the other half.

    Raises:
        UserError: there is no room, or the stride would leave pieces out.
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
    """Tell for each window which of its pieces have no more context in any other window: (length,) of True and False.

    The context of a piece in a window is its distance to the nearer end of the window. Where two windows are equal, the
    first has it. Every piece is True in one window only.
    """
    length = windows[-1].end
    best = np.full(length, -1)  # the most context so far, and the window that gives it
    owner = np.zeros(length, dtype=np.int64)
    for number, (begin, end) in enumerate(windows):
        places = np.arange(begin, end)
        context = np.minimum(places - begin, end - 1 - places)
        more = context > best[begin:end]
        owner[begin:end][more] = number
        best[begin:end][more] = context[more]
    return [owner[window.begin : window.end] == number for number, window in enumerate(windows)]
