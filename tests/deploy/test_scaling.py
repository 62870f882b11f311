"""Two replicas on Ray Serve answer as one server does, and one may die under load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from server_support import free_port

from d2lbert.deploy.server.models import Models, predict

CONTENTS = [
    {"text": "a warm and funny film"},
    {"text": "dull"},
    {"text": "fine"},
] * 7  # an odd number cannot be shared equally

# In a process of its own, so that the cluster ends with it.
SCRIPT = """
import itertools, json, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import ray
from ray import serve

from d2lbert.deploy.scaling import scaled

CLIENTS = 8
port, contents = int(sys.argv[1]), json.loads(sys.argv[2])
address = f"http://127.0.0.1:{port}"
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(scaled({"sst2": "minilm-sst2"}))
ask = lambda content: httpx.post(f"{address}/invocations", json=content, timeout=60)


def states():
    (deployment,) = serve.status().applications["default"].deployments.values()
    return deployment.replica_states


def replicas():
    ours = psutil.Process().children(recursive=True)
    titles = {one: "".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])}  # the dead have none
    return [one for one in ours if titles.get(one, "").startswith("ray::ServeReplica")]


with ThreadPoolExecutor(CLIENTS) as pool:
    answers = [reply.json() for reply in pool.map(ask, contents)]
refused = ask({"text": ""}).status_code
before = states()


def count():
    return float(httpx.get(f"{address}/metrics", timeout=60).text.split("\\nd2lbert_texts_total ")[1].split()[0])


# Ray chooses who answers, and may learn late that there are two: ask on until each has answered.
counts, end = {0}, time.monotonic() + 180
while (len(counts) < 2 or 0 in counts) and time.monotonic() < end:
    ask(contents[0])
    counts = {count() for _ in range(10)}

# Now without a pause, and one of the two is killed. The others ask on until its successor is there.
replies, killed, back = [], threading.Event(), threading.Event()


def client(first):
    for number in itertools.count(first):
        late = killed.is_set()
        reply = ask(contents[number % len(contents)])
        replies.append((number % len(contents), late, reply.status_code, reply.text))
        if back.is_set():
            return


clients = [threading.Thread(target=client, args=(first,)) for first in range(CLIENTS)]
for one in clients:
    one.start()
while len(replies) < 5 * CLIENTS:
    time.sleep(0.1)
two = replicas()
two[0].kill()
killed.set()
# Ray still counts two as running until it notices; then a process that was not there before takes the dead one's place.
end = time.monotonic() + 180
while (not set(replicas()) - set(two) or states() != {"RUNNING": 2}) and time.monotonic() < end:
    time.sleep(0.5)
time.sleep(2)
back.set()
for one in clients:
    one.join()
print(json.dumps({
    "answers": answers, "refused": refused, "before": before, "counts": sorted(counts), "replies": replies,
    "after": states(),
}))
serve.shutdown()
"""


@pytest.fixture(scope="module")
def right() -> list[dict[str, Any]]:
    """What one server answers."""
    models = Models({"sst2": "minilm-sst2"})
    return [predict([models.prepare(content)])[0] for content in CONTENTS]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What two replicas answered."""
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(free_port()), json.dumps(CONTENTS)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    line = next(line for line in run.stdout.splitlines() if line.startswith('{"answers"'))
    told: dict[str, Any] = json.loads(line)
    return told


def same(answer: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    """Return whether two answers are one, but for rounding: a batch is not the same whoever shares it."""
    return answer["label"] == expected["label"] and answer["probabilities"] == pytest.approx(
        expected["probabilities"], abs=1e-5
    )


@pytest.mark.slow
def test_two_replicas_answer_as_one_server_does(right: list[dict[str, Any]], found: dict[str, Any]) -> None:
    assert found["refused"] == 422
    assert found["before"] == {"RUNNING": 2}
    assert len(found["counts"]) == 2, "both have answered, and counted apart"
    assert min(found["counts"]) > 0
    assert all(map(same, found["answers"], right))
    assert len(found["answers"]) == len(right)


@pytest.mark.slow
def test_replica_killed_under_load_loses_only_what_it_held(right: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """Every request is answered: rightly, or, by at most one request of each client, with an error of the server."""
    replies = found["replies"]
    failed = [status for _, _, status, _ in replies if status != 200]
    assert len(failed) <= 8
    assert all(status in {500, 503} for status in failed)
    assert all(same(json.loads(text), right[number]) for number, _, status, text in replies if status == 200)
    assert sum(late for _, late, status, _ in replies if status == 200) > 8, "the other one went on"
    assert found["after"] == {"RUNNING": 2}, "a new one took its place"
