"""The queue: order, bounds, deadlines, failures, the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from typing import Any

import pytest

from d2lbert.deploy.server.batching import (
    Batcher,
    ClosedError,
    ExpiredError,
    QueueFullError,
    TooLargeError,
    Work,
)


def work(item: Any, tokens: int = 1, seconds: float = 60) -> Work:
    return Work(item, tokens, time.monotonic() + seconds)


class Gate:
    """A model that waits until it may compute, and remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)

    def __call__(self, items: Sequence[Any]) -> list[str]:
        self.batches.append(list(items))
        self.entered.release()
        assert self.open.wait(30)
        if "bad" in items:
            raise ValueError("bad text")
        return [f"answer {item}" for item in items]


@pytest.fixture
def gate() -> Gate:
    return Gate()


def busy(gate: Gate, **limits: int) -> Batcher:
    """A batcher whose model is at work on a first text."""
    batcher = Batcher(gate, **{"batch_tokens": 10, "queue_tokens": 100, **limits})
    batcher.submit([work("first")])
    gate.entered.acquire()
    return batcher


def test_a_lone_text_is_computed_at_once(gate: Gate) -> None:
    gate.open.set()
    batcher = Batcher(gate, 10, 100)
    one = work("a")
    batcher.submit([one])
    assert one.answer.result(10) == "answer a"
    assert batcher.close(10)


def test_what_arrives_meanwhile_is_the_next_batch_as_far_as_it_fits(gate: Gate) -> None:
    batcher = busy(gate)
    works = [work(name, tokens) for name, tokens in (("a", 4), ("b", 5), ("c", 3), ("large", 40), ("d", 10))]
    batcher.submit(works)
    assert batcher.waiting_tokens == 62
    gate.open.set()
    assert [one.answer.result(10) for one in works] == [f"answer {one.item}" for one in works]
    assert gate.batches == [["first"], ["a", "b"], ["c"], ["large"], ["d"]]
    assert batcher.waiting_tokens == 0


def large_work() -> Work:
    """A work of three parts that are batches of their own."""
    return Work("l", 30, time.monotonic() + 60, [("l1", 10), ("l2", 10), ("l3", 10)], " and ".join)


def test_others_have_their_turn_between_the_parts_of_a_large_item(gate: Gate) -> None:
    batcher = busy(gate)
    works = [large_work(), work("a", 4), work("b", 4), work("c", 4)]
    batcher.submit(works)
    assert batcher.waiting_tokens == 42
    gate.open.set()
    assert works[0].answer.result(10) == "answer l1 and answer l2 and answer l3"
    assert gate.batches == [["first"], ["l1"], ["a", "b"], ["c"], ["l2"], ["l3"]]
    assert batcher.waiting_tokens == 0
    assert batcher.close(10)


@pytest.mark.parametrize("end", ["late", "unwanted", "bad", "bad join"])
def test_the_rest_of_a_large_item_is_dropped(gate: Gate, end: str) -> None:
    batcher = Batcher(gate, 10, 100)
    large, last = large_work(), work("last", 3)
    if end == "bad":
        large.parts = [("bad", 10), *large.parts[1:]]
    if end == "bad join":
        large.join = lambda results: 1 / 0
    batcher.submit([large])
    gate.entered.acquire()  # the first part is being computed
    if end == "late":
        large.deadline = 0.0
    if end == "unwanted":
        large.answer.cancel()
    gate.open.set()
    kind = {"late": ExpiredError, "unwanted": CancelledError, "bad": ValueError, "bad join": ZeroDivisionError}[end]
    with pytest.raises(kind):
        large.answer.result(10)
    batcher.submit([last])
    assert last.answer.result(10) == "answer last"
    assert batcher.waiting_tokens == 0
    assert len(gate.batches) == (4 if end == "bad join" else 2)


def test_a_full_queue_takes_all_of_a_request_or_nothing(gate: Gate) -> None:
    batcher = busy(gate, queue_tokens=10)
    batcher.submit([work("a", 6)])
    with pytest.raises(QueueFullError) as full:
        batcher.submit([work("b", 2), work("c", 3)])
    assert full.value.seconds >= 1
    assert batcher.waiting_tokens == 6
    batcher.submit([work("d", 4)])
    with pytest.raises(TooLargeError, match="11 tokens, and the queue takes 10"):
        batcher.submit([work("e", 11)])
    gate.open.set()
    assert batcher.close(10)
    assert gate.batches == [["first"], ["a", "d"]]


def test_what_is_too_late_or_not_wanted_is_not_computed(gate: Gate) -> None:
    batcher = busy(gate)
    late, unwanted, good = work("late", seconds=-1), work("unwanted"), work("good")
    batcher.submit([late, unwanted, good])
    unwanted.answer.cancel()
    gate.open.set()
    assert good.answer.result(10) == "answer good"
    with pytest.raises(ExpiredError):
        late.answer.result(10)
    with pytest.raises(CancelledError):
        unwanted.answer.result(10)
    assert gate.batches == [["first"], ["good"]]


def test_a_text_that_fails_spoils_no_other(gate: Gate) -> None:
    batcher = busy(gate)
    works = [work("a"), work("bad"), work("b")]
    batcher.submit(works)
    gate.open.set()
    assert works[0].answer.result(10) == "answer a"
    assert works[2].answer.result(10) == "answer b"
    with pytest.raises(ValueError, match="bad text"):
        works[1].answer.result(10)
    assert batcher.alive


def test_the_end_answers_what_was_accepted_and_takes_no_more(gate: Gate) -> None:
    batcher = busy(gate)
    waiting = work("a")
    batcher.submit([waiting])
    assert not batcher.close(0.05), "the model is still at work"
    with pytest.raises(ClosedError):
        batcher.submit([work("b")])
    gate.open.set()
    assert batcher.close(10)
    assert waiting.answer.result(0) == "answer a"
    assert not batcher.alive


def test_batches_are_watched() -> None:
    seen: list[tuple[int, int]] = []
    batcher = Batcher(lambda items: items, 10, 100, lambda texts, tokens, seconds: seen.append((texts, tokens)))
    works = [work("a", 3)]
    batcher.submit(works)
    works[0].answer.result(10)
    assert batcher.close(10)
    assert seen == [(1, 3)]


def test_advice_follows_the_speed(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    batcher = busy(gate, queue_tokens=1000)
    batcher.submit([work("a", 1000)])
    for speed, seconds in ((0.0, 1), (10_000.0, 1), (100.0, 10), (0.1, 60)):
        monkeypatch.setattr(batcher, "_speed", speed)
        with pytest.raises(QueueFullError) as full:
            batcher.submit([work("b")])
        assert full.value.seconds == seconds
    gate.open.set()
    assert batcher.close(10)
