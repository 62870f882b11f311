"""Texts of requests become what the models read, in slices of time that take turns.

A large request is encoded for a while, then those who came after it have their turn. What the queue can never take is
refused before it is encoded, where its size tells, or as soon as its tokens are too many.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from d2lbert.data.examples import ChoiceQuestion, Question, TaggedSentence
from d2lbert.deploy.server.batching import ExpiredError, TooLargeError
from d2lbert.deploy.server.models import Asked, Models, Prepared
from d2lbert.errors import UserError
from d2lbert.tasks.base import Input, Loss

_SLICE = 0.02  # seconds of a turn; what has begun is ended
_CHOICES = 64  # that are encoded at once
# The fewest tokens of a text, [CLS] a [SEP], and of a text with one more, [CLS] a [SEP] b [SEP].
_OF_TEXT, _OF_PAIR = 3, 5
# More characters for each token that the queue takes are refused uncounted. Natural text has four to seven.
_CHARACTERS = 8
# A premise is read with each choice, but no more than its beginning, so it may be much longer.
_OF_PREMISES = 128


class Encoder:
    """Encodes the texts of all requests in one thread: they use no more than one processor, while the model computes.

    Args:
        models: that the texts are for.
        room: the most tokens of a request.
    """

    def __init__(self, models: Models, room: int) -> None:
        self._models, self._room = models, room
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encoding")

    async def encode(self, contents: Sequence[Mapping[str, Any]], model: str | None, deadline: float) -> list[Prepared]:
        """Return the texts of a request, encoded, in their order. If this is cancelled, the rest is dropped.

        Args:
            contents, model: as for :meth:`d2lbert.deploy.server.models.Models.check`.
            deadline: on the clock of ``time.monotonic``.

        Raises:
            UserError: a text cannot be answered.
            TooLargeError: the texts have more tokens than there is room for.
            ExpiredError: the deadline has passed.
        """
        self._check_least(contents)
        done: list[Prepared] = []
        steps = self._steps(contents, model, done)
        loop = asyncio.get_running_loop()
        # Each slice is a job of its own. The thread takes jobs in their order, so the next one is another request's.
        while await loop.run_in_executor(self._thread, _go_on, steps, deadline):
            pass
        return done

    def _steps(self, contents: Sequence[Mapping[str, Any]], model: str | None, done: list[Prepared]) -> Iterator[None]:
        """Encode texts into ``done``, a step after each of them, or after some of its choices."""
        room = self._room
        for number, content in enumerate(contents, start=1):
            try:
                asked = self._models.check(content, model)
                self._check_characters(asked)
                inputs, cut = list[Input](), False
                for read, cut_here in _read_in_parts(asked):
                    inputs, cut = inputs + read, cut or cut_here
                    room -= sum(len(encoding) for item in read for encoding in item.encodings)
                    if room < 0:
                        raise self._too_large()
                    yield
            except UserError as error:
                where = f"text {number}: " if len(contents) > 1 else ""
                raise UserError(f"{where}{error}") from None
            done.append(asked.prepared(_joined(inputs) if asked.task.loss is Loss.CHOICE else inputs, cut))

    def _check_least(self, contents: Sequence[Mapping[str, Any]]) -> None:
        """Refuse texts that are too many for the room, however short they are.

        Raises:
            TooLargeError: they are.
        """
        least = 0
        for content in contents:
            choices = content.get("choices")
            least += _OF_PAIR * len(choices) if isinstance(choices, list) and choices else _OF_TEXT
        if least > self._room:
            raise self._too_large()

    def _check_characters(self, asked: Asked) -> None:
        """Refuse a text that would take long to encode, only to be refused then.

        Raises:
            TooLargeError: it is longer than anything that there is room for.
        """
        (example,) = asked.examples
        if isinstance(example, ChoiceQuestion):
            too_long = len(example.premise) * len(example.choices) > _OF_PREMISES * self._room
        elif isinstance(example, Question):
            too_long = len(example.context) + len(example.question) > _CHARACTERS * self._room
        elif isinstance(example, TaggedSentence):
            too_long = sum(map(len, example.words)) > _CHARACTERS * self._room
        else:
            too_long = False  # only the beginning is read
        if too_long:
            raise self._too_large()

    def _too_large(self) -> TooLargeError:
        return TooLargeError(f"more than {self._room:,} tokens, and the queue takes {self._room:,}: send less at once")


def _go_on(steps: Iterator[None], deadline: float) -> bool:
    """Take steps until the slice is over; return whether there are more.

    Raises:
        ExpiredError: the deadline has passed.
    """
    end = time.monotonic() + _SLICE
    for _ in steps:
        now = time.monotonic()
        if now > deadline:
            raise ExpiredError("the deadline passed while the texts were encoded")
        if now > end:
            return True
    return False


def _read_in_parts(asked: Asked) -> Iterator[tuple[list[Input], bool]]:
    """Yield the inputs of a text, and whether it had to be cut: all at once, or of some of its choices at a time.

    Raises:
        UserError: a text holds nothing that the tokenizer keeps; of many choices the message names the part.
    """
    (example,) = asked.examples
    count = len(example.choices) if isinstance(example, ChoiceQuestion) else 1
    number = math.ceil(count / _CHOICES)
    if number == 1:
        yield asked.read([example])
        return
    for index in range(number):  # parts of nearly equal size, so that none is left with a single choice
        begin, end = count * index // number, count * (index + 1) // number
        try:
            read = asked.read([ChoiceQuestion(example.premise, example.choices[begin:end])])
        except UserError as error:
            raise UserError(f"choices {begin + 1:,} to {end:,}: {error}") from None
        yield read


def _joined(inputs: Sequence[Input]) -> list[Input]:
    """Return one input that has the choices of all."""
    return [Input(tuple(encoding for item in inputs for encoding in item.encodings), None, 0)]
