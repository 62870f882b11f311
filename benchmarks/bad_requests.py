"""Requests to the server that are wrong in many ways, all of which it must refuse."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import httpx

REFUSALS = {400, 404, 405, 406, 413, 415, 422}
HUNG_UP = "hung up"  # on a body that is larger than it reads, before all of it was sent
TOO_LARGE, TOO_LARGE_EVERY = 7_000_000, 50  # bytes of such a body; requests of which one may have it


def bad_requests(count: int, seed: int = 0) -> Iterator[dict[str, object]]:
    """Yield the arguments of ``httpx.Client.post`` for each request."""
    chance = random.Random(seed)
    for number in range(count):
        kinds: list[dict[str, object]] = [
            {"content": b"{" * chance.randint(1, 2000)},
            {"content": bytes(chance.randrange(256) for _ in range(50))},
            {"json": {"text": "word " * chance.randint(0, 300), "model": f"none-{number}"}},
            {"json": {f"field-{number}": "x"}},
            {"json": [{"text": ""}]},
            {"content": b"a,b\n", "headers": {"Content-Type": f"text/{number}"}},
        ]
        if number % TOO_LARGE_EVERY == 0:
            kinds.append({"content": b"x" * TOO_LARGE})
        yield chance.choice(kinds)


def ask_badly(address: str, count: int, seed: int = 0) -> Counter[str]:
    """Send bad requests one after the other; return how often each status came, or that the server hung up.

    Raises:
        httpx.TransportError: there was no answer, and the body was not too large.
    """
    answers: Counter[str] = Counter()
    with httpx.Client(base_url=address, timeout=60) as client:
        for options in bad_requests(count, seed):
            headers = {"Content-Type": "application/json", **options.pop("headers", {})}  # type: ignore[dict-item]
            try:
                status = client.post("/invocations", headers=headers, **options).status_code  # type: ignore[arg-type]
                answers[str(status)] += 1
            except httpx.TransportError:
                if len(options.get("content", b"")) < TOO_LARGE:  # type: ignore[arg-type]
                    raise
                answers[HUNG_UP] += 1
    return answers
