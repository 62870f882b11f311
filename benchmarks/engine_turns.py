"""Engines of one model take turns: their speeds, their logits, and the texts that they get."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.int8_sides import Engine
from benchmarks.timing import Lap, Side, compare, in_words, take_turns, timed
from d2lbert.data.batching import Batch
from d2lbert.text import Encoding, WordPiece

Layout = Callable[[list[Any]], Batch]  # of the texts of a turn, for one engine

WARM_UP = 2
PAUSE = 0.1  # seconds before a turn: the threads of the engine before it still look for work for a while
TOLERANCE = 1e-4  # of logits of float32


def rested(side: Side) -> Side:
    """Return a side that rests before its turn, outside the time taken."""

    def turn(work: Any) -> Lap:
        time.sleep(PAUSE)
        return side(work)

    return turn


def turns_of(
    sides: dict[str, tuple[Engine, Layout]], turns: list[list[Any]]
) -> tuple[dict[str, list[Lap]], dict[str, np.ndarray]]:
    """Let engines take turns over batches of texts; return the laps of each side, and all its logits.

    Args:
        sides: name -> engine, and what lays a turn out for it, in the time that is taken.
        turns: the texts of each turn.
    """
    logits: dict[str, list[np.ndarray]] = {name: [] for name in sides}

    def side(name: str) -> Callable[[list[Any]], None]:
        engine, layout = sides[name]
        return lambda texts: logits[name].append(engine(layout(texts)))

    laps = take_turns({name: rested(timed(side(name), len)) for name in sides}, [turns[0]] * WARM_UP + turns, WARM_UP)
    return laps, {name: np.concatenate(own[WARM_UP:]) for name, own in logits.items()}


def race(
    sides: dict[str, tuple[Engine, Layout]], turns: list[list[Any]], unit: str, reference: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Let engines take turns over batches of texts; return speeds with ratios to the reference, and all logits.

    Args:
        sides, turns: as in :func:`turns_of`.
        unit: what is counted, in the plural: texts, sentences.
        reference: the name of the side that all others are compared with.
    """
    laps, logits = turns_of(sides, turns)
    found = compare(laps, unit, [(name, reference) for name in sides if name != reference])
    print(in_words(found), flush=True)
    return found, logits


def differences(
    logits: dict[str, np.ndarray], reference: str, reduced: Sequence[str] = ()
) -> dict[str, dict[str, float]]:
    """Return for each engine the largest difference of a logit to the reference's, and the share of changed labels.

    Args:
        reduced: words in the names of engines whose numbers have fewer digits: their logits may differ.

    Raises:
        SystemExit: an engine of float32 computed something else.
    """
    right, found = logits[reference], {}
    for name, own in logits.items():
        largest = float(np.abs(own - right).max())
        if largest > TOLERANCE and not any(word in name for word in reduced):
            raise SystemExit(f"{name}: logits differ by {largest:.1e}; it did not compute the same")
        changed = float((own.argmax(-1) != right.argmax(-1)).mean())
        found[name] = {"largest_difference_of_logits": largest, "changed_labels": changed}
    return found


def instructions() -> list[str]:
    """Return which instructions for 8 and 16 bits the processor has: they decide what int8 and bfloat16 gain."""
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").is_file() else []
    wanted = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")
    return [name for name in wanted if name in flags]


def texts_of_length(tokenizer: WordPiece, texts: list[str], tokens: int, count: int) -> list[Encoding]:
    """Return texts of exactly so many tokens: sentences one after the other, from another one on each time."""
    found = []
    for first in range(count):
        joined = " ".join((texts[first:] + texts[:first]) * (1 + tokens // len(texts)))
        found.append(tokenizer.encode(joined, max_length=tokens))
    assert {len(one) for one in found} == {tokens}
    return found
