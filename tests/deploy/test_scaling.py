"""Two replicas on Ray Serve answer as one server does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
import json, sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import ray
from ray import serve

from d2lbert.deploy.scaling import scaled

port, contents = int(sys.argv[1]), json.loads(sys.argv[2])
address = f"http://127.0.0.1:{port}"
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": port})
serve.run(scaled({"sst2": "minilm-sst2"}))
ask = lambda content: httpx.post(f"{address}/invocations", json=content, timeout=60)
with ThreadPoolExecutor(8) as pool:
    answers = [reply.json() for reply in pool.map(ask, contents)]
refused = ask({"text": ""}).status_code
(deployment,) = serve.status().applications["default"].deployments.values()
pages = [httpx.get(f"{address}/metrics", timeout=60).text for _ in range(30)]
counts = {page.split("\\nd2lbert_texts_total ")[1].split()[0] for page in pages}
print(json.dumps([answers, refused, deployment.replica_states, len(counts)]))
serve.shutdown()
"""


@pytest.mark.slow
def test_two_replicas_answer_as_one_server_does(tmp_path: Path) -> None:
    models = Models({"sst2": "minilm-sst2"})
    right = [predict([models.prepare(content)])[0] for content in CONTENTS]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(free_port()), json.dumps(CONTENTS)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    answers, refused, states, counts = json.loads(
        next(line for line in run.stdout.splitlines() if line.startswith("[["))
    )
    assert refused == 422
    assert states == {"RUNNING": 2}
    assert counts == 2, "both have answered, and counted apart"
    for found, expected in zip(answers, right, strict=True):
        assert found["label"] == expected["label"]
        assert found["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-5)
