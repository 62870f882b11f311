"""Taking turns: every side does every turn, the order alternates, and the ratios are those within a turn."""

from __future__ import annotations

import pytest

from benchmarks import timing
from benchmarks.timing import Lap, compare, in_words, take_turns, timed


def test_every_side_does_every_turn_and_the_order_is_reversed() -> None:
    done: list[tuple[str, int]] = []

    def side(name: str, seconds: float) -> timing.Side:
        def lap(turn: int) -> Lap:
            done.append((name, turn))
            return Lap(10.0 * turn, seconds)

        return lap

    laps = take_turns({"reference": side("reference", 2.0), "ours": side("ours", 1.0)}, range(4), warm_up=1)
    assert done == [
        *(("ours", 0), ("reference", 0), ("reference", 1), ("ours", 1)),
        *(("ours", 2), ("reference", 2), ("reference", 3), ("ours", 3)),
    ]
    assert laps == {
        name: [Lap(10.0 * turn, seconds) for turn in (1, 2, 3)] for name, seconds in (("reference", 2.0), ("ours", 1.0))
    }


def test_the_work_alone_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def work(turn: int) -> int:
        clock[0] += 3.0
        return 7 * turn

    def amount(turn: int) -> float:
        clock[0] += 100.0  # counting what a turn holds is no work of the side
        return 5.0 * turn

    assert timed(work)(2) == Lap(14, 3.0)
    assert timed(work, amount)(2) == Lap(10.0, 3.0)


def test_totals_medians_and_quartiles() -> None:
    laps = {
        "reference": [Lap(60, 30), Lap(60, 20), Lap(60, 10), Lap(60, 60)],  # 2, 3, 6 and 1 a second
        "ours": [Lap(60, 10), Lap(60, 12), Lap(60, 5), Lap(60, 15)],  # 6, 5, 12 and 4 a second
    }
    found = compare(laps, "tokens")
    assert found["turns"] == 4
    assert found["tokens_per_second"] == {
        "reference": {"total": 2.0, "median": 2.5},
        "ours": {"total": pytest.approx(240 / 42), "median": 5.5},
    }
    assert list(found["ratio"]) == ["ours to reference"]
    ratio = found["ratio"]["ours to reference"]  # 3, 5/3, 2 and 4 times as fast
    assert ratio["total"] == pytest.approx(120 / 42)
    assert ratio["median"] == pytest.approx(2.5)
    assert ratio["quartiles"] == pytest.approx([1.75, 3.75])
    assert in_words(found) == "tokens per second: reference 2.5, ours 5.5; ours to reference 2.50 (1.75 to 3.75)"


def test_a_busy_machine_does_not_move_the_ratio() -> None:
    """Where both sides of a turn take ten times as long, their ratio is what it was."""
    laps = {
        "reference": [Lap(1, 2.0), Lap(1, 20.0), Lap(1, 2.0)],
        "ours": [Lap(1, 1.0), Lap(1, 10.0), Lap(1, 1.0)],
    }
    ratio = compare(laps, "steps")["ratio"]["ours to reference"]
    assert (ratio["median"], ratio["quartiles"]) == (2.0, [2.0, 2.0])


def test_several_sides_are_compared_in_pairs_and_one_turn_will_do() -> None:
    laps = {"loop": [Lap(4, 4)], "padded": [Lap(4, 2)], "packed": [Lap(4, 1)]}
    found = compare(laps, "tokens", [("padded", "loop"), ("packed", "loop")])
    assert {pair: ratio["median"] for pair, ratio in found["ratio"].items()} == {
        "padded to loop": 2.0,
        "packed to loop": 4.0,
    }
    assert found["ratio"]["packed to loop"]["quartiles"] == [4.0, 4.0]
