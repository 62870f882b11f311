"""Time sides that do the same work: they take turns in one process, and are compared turn by turn.

A machine that is busy for a while is busy for all sides. So the ratio of two sides within a turn varies less than their
speeds do, and its median and quartiles are what a benchmark reports.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Lap(NamedTuple):
    """What a side did in one turn.

    Fields:
        amount: how much of what is counted: tokens, sentences.
        seconds: how long it took.
    """

    amount: float
    seconds: float


# A side gets a turn (a batch, a chunk of text, a number) and does its work.
Side = Callable[[Any], Lap]


def timed(work: Callable[[Any], Any], amount: Callable[[Any], float] | None = None) -> Side:
    """Return a side that takes the time of ``work(turn)``.

    Args:
        work: what is timed.
        amount: says how much a turn holds, outside the time taken; by default ``work`` returns it.
    """

    def side(turn: Any) -> Lap:
        began = time.perf_counter()
        done = work(turn)
        seconds = time.perf_counter() - began
        return Lap(amount(turn) if amount else done, seconds)

    return side


def take_turns(sides: dict[str, Side], turns: Iterable[Any], warm_up: int = 0) -> dict[str, list[Lap]]:
    """Let every side do every turn, one after the other; the order of the sides is reversed from turn to turn.

    Args:
        sides: by name.
        turns: what the sides get.
        warm_up: so many first turns are done, but not returned.

    Returns:
        The laps of each side.
    """
    laps: dict[str, list[Lap]] = {name: [] for name in sides}
    for number, turn in enumerate(turns):
        for name in list(sides) if number % 2 else list(reversed(sides)):
            lap = sides[name](turn)
            if number >= warm_up:
                laps[name].append(lap)
    return laps


def compare(
    laps: dict[str, list[Lap]], unit: str, pairs: Sequence[tuple[str, str]] = (("ours", "reference"),)
) -> dict[str, Any]:
    """Return the speeds of all sides, and how many times as fast the first of each pair of sides is as the second.

    Args:
        laps: of each side, as many of one as of the other.
        unit: what the amounts count, in the plural.
        pairs: names of sides.

    Returns:
        ``turns``; ``<unit>_per_second``: by side, ``total`` (all of the amount over all of the time) and the ``median``
        of the turns; ``ratio``: by pair, as ``"ours to reference"``, that of the totals as ``total``, and ``median``
        and ``quartiles`` (the lower and the upper one) of those within each turn.
    """
    totals = {name: sum(lap.amount for lap in own) / sum(lap.seconds for lap in own) for name, own in laps.items()}
    speeds = {name: [lap.amount / lap.seconds for lap in own] for name, own in laps.items()}
    ratios = {}
    for one, other in pairs:
        ratio = [a / b for a, b in zip(speeds[one], speeds[other], strict=True)]
        lower, _, upper = statistics.quantiles(ratio, n=4) if len(ratio) > 1 else 3 * ratio
        ratios[f"{one} to {other}"] = {
            "total": totals[one] / totals[other],
            "median": statistics.median(ratio),
            "quartiles": [lower, upper],
        }
    return {
        "turns": len(next(iter(laps.values()))),
        f"{unit}_per_second": {
            name: {"total": totals[name], "median": statistics.median(speeds[name])} for name in laps
        },
        "ratio": ratios,
    }


def in_words(found: dict[str, Any]) -> str:
    """Return what :func:`compare` found as one line to print."""
    key = next(name for name in found if name.endswith("_per_second"))
    speeds = [f"{name} {speed['median']:,.1f}" for name, speed in found[key].items()]
    ratios = [
        f"{pair} {ratio['median']:.2f} ({ratio['quartiles'][0]:.2f} to {ratio['quartiles'][1]:.2f})"
        for pair, ratio in found["ratio"].items()
    ]
    return f"{key.replace('_', ' ')}: {', '.join(speeds)}; {', '.join(ratios)}"
