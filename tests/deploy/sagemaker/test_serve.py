"""The program ``serve``: the model of a container at SageMaker's addresses, in all that it can be asked for."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from sagemaker_support import container, program, serving

from d2lbert import UserError
from d2lbert.deploy.sagemaker.serve import served_models, server_settings
from d2lbert.deploy.sagemaker.train import STOPPED


@pytest.fixture
def root(tmp_path: Path, folder: Path) -> Path:
    """The root of a container whose model is the classifier in ``folder``."""
    (tmp_path / "model").symlink_to(folder)
    return tmp_path


def test_an_endpoint_answers_and_stops(root: Path) -> None:
    with serving(root) as (process, client):
        ping = client.get("/ping")
        assert (ping.status_code, ping.content) == (200, b"")
        answer = client.post("/invocations", json={"text": "a warm and funny film"})
        assert answer.status_code == 200
        assert set(answer.json()) >= {"label"}
        assert client.post("/models", json={"model_name": "x", "url": "/"}).status_code in (404, 405)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == STOPPED
        assert time.monotonic() - began < 30, "SageMaker kills it then"


def test_a_batch_transform_job(root: Path) -> None:
    variables = {"SAGEMAKER_BATCH": "true", "SAGEMAKER_MAX_PAYLOAD_IN_MB": "20"}
    with serving(root, **variables) as (_, client):
        assert client.get("/execution-parameters").json()["MaxPayloadInMB"] == 20
        lines = "".join(json.dumps({"text": f"film number {number}"}) + "\n" for number in range(1000))
        answer = client.post("/invocations", content=lines, headers={"Content-Type": "application/jsonlines"})
        assert [set(json.loads(line)) >= {"label"} for line in answer.text.splitlines()] == [True] * 1000


def test_a_container_of_many_models(tmp_path: Path, folder: Path) -> None:
    with serving(tmp_path, SAGEMAKER_MULTI_MODEL="true") as (_, client):
        asked = {"model_name": "abc", "url": str(folder)}
        assert client.post("/models", json=asked).status_code == 200
        assert "label" in client.post("/models/abc/invoke", json={"text": "good"}).json()


def test_a_container_without_a_model_says_so(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    run = subprocess.run(program("serve"), capture_output=True, text=True, env=container(tmp_path), timeout=120)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        f"d2lbert: {tmp_path / 'model'} holds no model: give ModelDataUrl an archive with config.json at its top"
    ]


def test_models_of_a_folder(tmp_path: Path) -> None:
    for name in ("mood", "names"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "adapter_config.json").write_text("{}")
    (tmp_path / "notes").mkdir()
    assert served_models(tmp_path) == {name: str(tmp_path / name) for name in ("mood", "names")}
    (tmp_path / "config.json").write_text("{}")
    assert served_models(tmp_path) == {"model": str(tmp_path)}


def test_limits() -> None:
    assert server_settings({}).body_bytes == 6_291_456
    batch = server_settings(
        {"SAGEMAKER_BATCH": "true", "SAGEMAKER_MAX_PAYLOAD_IN_MB": "10", "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": "3"}
    )
    assert (batch.body_bytes, batch.waiting_bytes) == (10 * 2**20, 30 * 2**20)
    assert 60 < batch.deadline_seconds < 600
    for size, requests in (("0", "0"), ("", "00")):  # the service leaves both to the container
        variables = {"SAGEMAKER_MAX_PAYLOAD_IN_MB": size, "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": requests}
        assert server_settings({"SAGEMAKER_BATCH": "true", **variables}) == server_settings({"SAGEMAKER_BATCH": "true"})
    for text in ("-1", "9" * 5000):
        with pytest.raises(UserError, match=r"SAGEMAKER_MAX_CONCURRENT_TRANSFORMS is '[-19]{2,80}"):
            server_settings({"SAGEMAKER_BATCH": "true", "SAGEMAKER_MAX_CONCURRENT_TRANSFORMS": text})
    with pytest.raises(UserError, match="SAGEMAKER_MAX_PAYLOAD_IN_MB is 'much': give a number, or 0 for"):
        server_settings({"SAGEMAKER_BATCH": "true", "SAGEMAKER_MAX_PAYLOAD_IN_MB": "much"})
