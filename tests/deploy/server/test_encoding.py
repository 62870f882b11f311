"""Slices of encoding: what is read in parts is what is read at once."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from d2lbert import UserError
from d2lbert.deploy.server import encoding
from d2lbert.deploy.server.batching import ExpiredError, TooLargeError
from d2lbert.deploy.server.encoding import Encoder
from d2lbert.deploy.server.models import Models, Prepared

CHOICES = [f"The road number {number} is wet." for number in range(129)]


def encode(models: Models, *contents: dict[str, Any], room: int = 65_536, seconds: float = 60) -> list[Prepared]:
    return asyncio.run(Encoder(models, room).encode(contents, None, time.monotonic() + seconds))


@pytest.mark.parametrize("count", [2, 64, 65, 129])
def test_choices_in_parts_are_those_of_the_whole(models: Models, count: int) -> None:
    for premise in ("It rained.", "It rained. " * 100):
        content = {"text": premise, "choices": CHOICES[:count], "model": "choice"}
        (found,), right = encode(models, content), models.prepare(content)
        assert found.inputs == right.inputs
        assert found.examples == right.examples
        assert found.warning == right.warning


def test_texts_of_several_models_keep_their_order(models: Models) -> None:
    contents = [
        {"text": "a film", "model": "mood"},
        {"context": "Jim sells eels. " * 200, "question": "Who?", "model": "answers"},
        {"text": "Jim sells eels.", "model": "names"},
    ]
    for found, content in zip(encode(models, *contents), contents, strict=True):
        right = models.prepare(content)
        assert (found.model, found.inputs) == (right.model, right.inputs)


def test_a_mistake_names_its_text_and_the_choices(models: Models) -> None:
    good = {"text": "a film", "model": "mood"}
    bad = {"text": "It rained.", "choices": [*CHOICES[:70], "\u200b"], "model": "choice"}
    with pytest.raises(UserError, match=r"^text 2: choices 36 to 71: the text .* holds nothing"):
        encode(models, good, bad)
    with pytest.raises(UserError, match=r"^the text .* holds nothing"):
        encode(models, {"text": "\u200b", "model": "mood"})


def test_all_that_fits_is_taken(models: Models) -> None:
    content = {"text": "a film", "model": "mood"}
    tokens = models.prepare(content).tokens
    assert len(encode(models, *[content] * 9, room=9 * tokens)) == 9
    with pytest.raises(TooLargeError, match=f"more than {9 * tokens - 1} tokens"):
        encode(models, *[content] * 9, room=9 * tokens - 1)


def test_what_is_late_is_not_encoded_to_its_end(models: Models) -> None:
    with pytest.raises(ExpiredError):
        encode(models, *[{"text": "a film", "model": "mood"}] * 2, seconds=-1)


def test_requests_take_turns(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "_SLICE", 0.0)
    encoder, deadline = Encoder(models, 65_536), time.monotonic() + 60
    ended: list[int] = []

    async def ask(count: int) -> None:
        ended.append(len(await encoder.encode([{"text": "a film", "model": "mood"}] * count, None, deadline)))

    async def all_at_once() -> None:
        await asyncio.gather(ask(30), ask(3), ask(10))

    asyncio.run(all_at_once())
    assert ended == [3, 10, 30]
