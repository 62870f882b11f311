"""SIGTERM: what the server has accepted is answered, and who sends requests learns in time that it stops."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import httpx
from server_support import CONTENT, answers, at_once, serving

LONG = {**CONTENT, "text": "a warm and funny film " * 30}  # longer than the model reads


def accepted(address: str) -> tuple[int, int]:
    """Return how many requests the server has answered, and how many it has read and not answered, as it counts."""
    counted = httpx.get(f"{address}/metrics", timeout=60).text
    values = dict(line.rsplit(" ", 1) for line in counted.splitlines() if not line.startswith("#"))
    answered = values.get('d2lbert_requests_total{path="/invocations",status="200"}', 0)
    body = httpx.Request("POST", address, json=LONG).content
    return int(float(answered)), int(float(values["d2lbert_waiting_bytes"])) // len(body)


def test_all_that_was_accepted_before_sigterm_is_answered(tmp_path: Path) -> None:
    """The signal comes when the server has read every request and most still wait for the model: none may be lost.

    It closes its address at once, and every text is a batch of its own, so most of the answers come after that.
    """
    count, waited = 80, list[int]()
    with serving(tmp_path, "--linger-seconds", "0", "--batch-tokens", "1", models=["minilm-sst2"]) as running:

        def stop_when_all_are_in() -> None:
            for _ in range(6000):
                answered, waiting = accepted(running.address)
                if answered + waiting == count:
                    break
                time.sleep(0.01)
            running.process.send_signal(signal.SIGTERM)
            waited.append(waiting)

        counts = answers(at_once(running.address, count, stop_when_all_are_in, LONG))
        assert waited[0] > count // 4, "otherwise nothing was at stake"
        assert counts == {200: count}
        assert running.process.wait(30) in (0, -signal.SIGTERM), "SageMaker kills after 30 seconds"
        assert running.log.read_text().count('"path": "/invocations", "status": 200') == count


def test_after_sigterm_the_server_is_not_ready_and_still_answers(tmp_path: Path) -> None:
    with serving(tmp_path, "--linger-seconds", "20") as running:
        running.process.send_signal(signal.SIGTERM)
        pings = Counter[int]()
        while not pings[503]:
            pings[httpx.get(f"{running.address}/ping", timeout=30).status_code] += 1
        assert answers(at_once(running.address, 20)) == {200: 20}
        assert running.stop() in (0, -signal.SIGTERM), "a second signal does not wait"
