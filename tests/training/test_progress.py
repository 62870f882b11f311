"""The bar of a run, and its speed."""

from __future__ import annotations

import pytest

from d2lbert.training.progress import per_second, progress_bar, show_speed


@pytest.mark.parametrize("seconds", [0.0, -7.5])
def test_a_clock_that_stands_or_goes_back_gives_no_speed(seconds: float) -> None:
    assert per_second(100, seconds) == 0.0
    assert per_second(100, 4.0) == 25.0


def test_the_bar_goes_on_where_the_run_was(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(7, 3, True) as bar:
        show_speed(bar, "loss 0.5", 1234.4)
    shown = capsys.readouterr()
    assert "4/7" in shown.err
    assert "loss 0.5, 1,234 tokens/s" in shown.err
    assert shown.out == ""
    with progress_bar(7, 3, False) as bar:
        show_speed(bar, "loss 0.5", 1234.4)
    assert capsys.readouterr().err == ""
