"""Windows over a long text: by hand, and no piece is lost or counted twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from d2lbert import UserError
from d2lbert.tasks.windows import Window, cut_into_windows, most_context


def test_windows_by_hand() -> None:
    """Seven pieces, room for four: a step of two."""
    assert cut_into_windows(7, 4) == [(0, 4), (2, 6), (4, 7)]
    assert cut_into_windows(4, 4) == [(0, 4)]
    assert cut_into_windows(3, 1) == [(0, 1), (1, 2), (2, 3)]
    owned = most_context(cut_into_windows(7, 4))
    # Piece 2 is one step from the end of the first window, and at the beginning of the second.
    assert [mask.tolist() for mask in owned] == [
        [True, True, True, False],
        [False, True, True, False],
        [False, True, True],
    ]
    # Piece 2 is one step from an end in both windows: the first has it.
    assert most_context(cut_into_windows(5, 4, 1))[0].tolist() == [True, True, True, False]
    with pytest.raises(UserError, match="stride 5 does not fit windows of 4"):
        cut_into_windows(7, 4, 5)
    with pytest.raises(UserError, match="no room is left"):
        cut_into_windows(7, 0)


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 12))
def test_every_piece_is_in_a_window_and_counts_once(length: int, room: int, stride: int) -> None:
    windows = cut_into_windows(length, room, min(stride, room))
    owned = most_context(windows)
    positions = [
        position
        for window, owned_by_window in zip(windows, owned, strict=True)
        for position in np.arange(*window)[owned_by_window]
    ]
    assert sorted(positions) == list(range(length))
    assert all(window.end - window.begin == room for window in windows[:-1])
    assert windows[-1].end == length

    def context(position: int, window: Window) -> int:
        cuts = [position - window.begin] * (window.begin > 0) + [window.end - 1 - position] * (window.end < length)
        return min(cuts, default=length)

    for window, owned_by_window in zip(windows, owned, strict=True):
        for position in np.arange(*window)[owned_by_window]:
            holding = [candidate for candidate in windows if candidate.begin <= position < candidate.end]
            assert context(position, window) == max(context(position, candidate) for candidate in holding)
