"""A bounded queue whose texts are computed together, as soon as the model is free.

There is no waiting for a batch to fill. While the model computes, texts arrive; what has arrived is the next batch. So
a lone request is answered at once, and under load batches are as large as they can be.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

_SMOOTHING = 0.2  # weight of the newest batch in the estimate of speed
_LONGEST_ADVICE = 60  # seconds


class QueueFullError(Exception):
    """There is no room for these texts now.

    Args:
        seconds: after which it is worth to try again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(f"too many texts are waiting: try again in {seconds} s")
        self.seconds = seconds


class TooLargeError(Exception):
    """There will never be room for these texts at once."""


class ExpiredError(Exception):
    """The deadline passed before the text was computed."""


class ClosedError(Exception):
    """The queue takes nothing any more."""


@dataclass
class Work:
    """What is computed for one answer.

    Fields:
        item: what the function gets.
        tokens: its size.
        deadline: on the clock of ``time.monotonic``.
        parts: of an item that is too large for one batch, each with its tokens. They are computed one after the other
            in its place, and other works have their turns between them.
        join: makes the answer of the results of all parts, in their order.
        answer: set when it is computed, failed or expired.
        results: of the parts that have been computed.
    """

    item: Any
    tokens: int
    deadline: float
    parts: Sequence[tuple[Any, int]] = ()
    join: Callable[[Sequence[Any]], Any] = list
    answer: Future[Any] = field(default_factory=Future)
    results: list[Any] = field(default_factory=list)

    @property
    def next(self) -> tuple[Any, int]:
        """What is computed next, the item or a part of it, and its tokens."""
        return self.parts[len(self.results)] if self.parts else (self.item, self.tokens)

    @property
    def left(self) -> int:
        """The tokens that have not been computed."""
        return self.tokens - sum(tokens for _, tokens in self.parts[: len(self.results)])

    @property
    def ending(self) -> bool:
        """Whether what is computed next is all that is missing."""
        return len(self.results) + 1 >= len(self.parts)


class Batcher:
    """Collects texts and computes them in batches, in one thread, in the order in which they came.

    Args:
        compute: from items to their answers; called in the batcher's own thread, never twice at once.
        batch_tokens: the most tokens of a batch. A larger item, or part of one, is a batch of its own.
        queue_tokens: the most tokens that wait.
        watch: called after each batch with the number of texts, of tokens, and the seconds that it took.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Any]], Sequence[Any]],
        batch_tokens: int,
        queue_tokens: int,
        watch: Callable[[int, int, float], None] = lambda texts, tokens, seconds: None,
    ) -> None:
        self._compute, self._watch = compute, watch
        self._batch_tokens, self._queue_tokens = batch_tokens, queue_tokens
        self._waiting: deque[Work] = deque()
        self._changed = threading.Condition()
        self._tokens = 0  # that wait
        self._speed = 0.0  # tokens a second; 0 until a batch has been computed
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread computes."""
        return self._thread.is_alive()

    @property
    def waiting_tokens(self) -> int:
        """The number of tokens that wait."""
        return self._tokens

    def submit(self, works: Sequence[Work]) -> None:
        """Take in all works of a request, or none.

        Raises:
            TooLargeError: they would not fit into an empty queue.
            QueueFullError: they do not fit now.
            ClosedError: the queue is closed.
        """
        tokens = sum(work.tokens for work in works)
        if tokens > self._queue_tokens:
            raise TooLargeError(f"{tokens:,} tokens, and the queue takes {self._queue_tokens:,}: send less at once")
        with self._changed:
            if self._closed or not self.alive:
                raise ClosedError("the server is stopping")
            if self._tokens + tokens > self._queue_tokens:
                raise QueueFullError(self._advice())
            self._waiting.extend(works)
            self._tokens += tokens
            self._changed.notify()

    def close(self, seconds: float) -> bool:
        """Take in nothing more and compute what waits; return whether all was computed in that time."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _advice(self) -> int:
        seconds = self._tokens / self._speed if self._speed else 1.0
        return max(1, min(_LONGEST_ADVICE, round(seconds)))

    def _run(self) -> None:
        while batch := self._next():
            began = time.monotonic()
            tokens = sum(work.next[1] for work in batch)
            whole = sum(work.ending for work in batch)
            self._answer(batch)
            seconds = time.monotonic() - began
            speed = tokens / max(seconds, 1e-6)
            self._speed = speed if not self._speed else (1 - _SMOOTHING) * self._speed + _SMOOTHING * speed
            self._watch(whole, tokens, seconds)

    def _next(self) -> list[Work]:
        """Return the works of the next batch; wait for the first of them. Nothing when closed and empty."""
        batch: list[Work] = []
        size = 0
        with self._changed:
            while not batch:
                while self._waiting and (not batch or size + self._waiting[0].next[1] <= self._batch_tokens):
                    work = self._waiting.popleft()
                    if _is_wanted(work):
                        batch.append(work)
                        size += work.next[1]
                        self._tokens -= work.next[1]
                    else:
                        self._tokens -= work.left
                if batch or (self._closed and not self._waiting):
                    return batch
                self._changed.wait()
        return batch

    def _answer(self, batch: Sequence[Work]) -> None:
        """Compute a batch. If it fails, each text is tried alone, so that one cannot spoil the answers of others."""
        try:
            results = self._compute([work.next[0] for work in batch])
        except Exception as error:
            if len(batch) == 1:
                self._fail(batch[0], error)
                return
            for work in batch:
                self._answer([work])
            return
        for work, result in zip(batch, results, strict=True):
            self._take(work, result)

    def _take(self, work: Work, result: Any) -> None:
        """Take the result of a work, or of a part of it. The rest of it waits behind all who have come meanwhile."""
        if not work.parts:
            work.answer.set_result(result)
            return
        ending = work.ending
        work.results.append(result)
        if not ending:
            with self._changed:
                self._waiting.append(work)
            return
        try:
            answer = work.join(work.results)
        except Exception as error:
            work.answer.set_exception(error)
        else:
            work.answer.set_result(answer)

    def _fail(self, work: Work, error: Exception) -> None:
        """Give up a work, and what is left of its parts."""
        if work.ending:
            work.answer.set_exception(error)
            return
        with self._changed:
            self._tokens -= work.left - work.next[1]
        if work.answer.set_running_or_notify_cancel():
            work.answer.set_exception(error)


def _is_wanted(work: Work) -> bool:
    """Whether somebody still waits for a work; if its deadline has passed, say so to whoever does."""
    late = time.monotonic() > work.deadline
    if not (late or work.ending):
        return not work.answer.cancelled()  # it can be cancelled until its last part begins
    if not work.answer.set_running_or_notify_cancel():
        return False
    if late:
        work.answer.set_exception(ExpiredError("the deadline passed before the text was computed"))
    return not late
