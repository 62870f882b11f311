"""Requests to the server that are wrong in many ways, all of which it must refuse."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import httpx

REFUSALS = {400, 404, 405, 406, 413, 415, 422}
HUNG_UP = "hung up"  # on a body that is larger than it reads, before all of it was sent
TOO_LARGE, TOO_LARGE_EVERY = 7_000_000, 50  # bytes of such a body; requests of which one may have it


class Request(NamedTuple):
    """The body of a request, and the type that it says it has."""

    body: bytes
    kind: str = "application/json"


def bad_requests(count: int, seed: int = 0) -> Iterator[Request]:
    """Yield so many bad requests, the same for the same seed."""
    chance = random.Random(seed)
    for number in range(count):
        unknown_model = {"text": "word " * chance.randint(0, 300), "model": f"none-{number}"}
        kinds = [
            Request(b"{" * chance.randint(1, 2000)),
            Request(bytes(chance.randrange(256) for _ in range(50))),
            Request(json.dumps(unknown_model).encode()),
            Request(json.dumps({f"field-{number}": "x"}).encode()),
            Request(json.dumps([{"text": ""}]).encode()),
            Request(b"a,b\n", f"text/{number}"),
        ]
        if number % TOO_LARGE_EVERY == 0:
            kinds.append(Request(b"x" * TOO_LARGE))
        yield chance.choice(kinds)


def ask_badly(address: str, count: int, seed: int = 0) -> Counter[str]:
    """Send bad requests one after the other; return how often each status came, or that the server hung up.

    Raises:
        httpx.TransportError: there was no answer, and the body was not too large.
    """
    answers: Counter[str] = Counter()
    with httpx.Client(base_url=address, timeout=60) as client:
        for request in bad_requests(count, seed):
            try:
                answer = client.post("/invocations", content=request.body, headers={"Content-Type": request.kind})
                answers[str(answer.status_code)] += 1
            except httpx.TransportError:
                if len(request.body) < TOO_LARGE:
                    raise
                answers[HUNG_UP] += 1
    return answers
