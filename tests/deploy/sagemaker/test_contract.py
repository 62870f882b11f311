"""What a job's files and variables say, and what happens where they are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_support import write_job

from d2lbert import UserError
from d2lbert.deploy.sagemaker.contract import decode, places, read_job, wait_for_hosts, write_failure


def environment(root: Path, **more: str) -> dict[str, str]:
    return {"SAGEMAKER_BASE_DIR": str(root), **more}


def test_places() -> None:
    place = places({})
    assert str(place.model) == "/opt/ml/model"
    assert str(place.checkpoints) == "/opt/ml/checkpoints"
    assert str(place.failure) == "/opt/ml/output/failure"
    assert str(place.output_data) == "/opt/ml/output/data"


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        ("3", "3"),
        ("1e-4", "1e-4"),
        ("0.10", "0.10"),
        ("007", "007"),
        ("NaN", "NaN"),
        ('"3"', "3"),
        ('"label"', "label"),
        ("label", "label"),
        ("true", True),
        ("False", "False"),
        ('"s3://b/k"', "s3://b/k"),
        ('["a", "b"]', ["a", "b"]),
        ("[" * 100_000, "[" * 100_000),
        ("", ""),
        (3, "3"),
        (True, True),
    ],
)
def test_values_of_hyperparameters(sent: Any, value: Any) -> None:
    assert decode(sent) == value
    assert type(decode(sent)) is type(value)


@given(st.text())
def test_a_text_that_a_client_encoded_comes_back(text: str) -> None:
    assert decode(json.dumps(text)) == text


def test_a_job_alone(tmp_path: Path) -> None:
    write_job(tmp_path, {"epochs": "2", "text_column": '"review"'}, {"train": {"a.csv": "x"}})
    job = read_job(environment(tmp_path))
    assert job.hyperparameters == {"epochs": "2", "text_column": "review"}
    assert job.channels == {"train": tmp_path / "input" / "data" / "train"}
    assert (job.rank, job.hosts, job.interface) == (0, ("algo-1",), "eth0")
    assert job.model == tmp_path / "model"


def test_a_folder_without_any_file_is_a_job_without_anything(tmp_path: Path) -> None:
    job = read_job(environment(tmp_path))
    assert (job.hyperparameters, job.channels, job.rank, job.hosts) == ({}, {}, 0, ("localhost",))


def test_the_rank_is_the_place_among_sorted_hosts(tmp_path: Path) -> None:
    write_job(tmp_path, {}, {}, hosts=["algo-2", "algo-1"], current="algo-2")
    job = read_job(environment(tmp_path))
    assert (job.rank, job.hosts[0]) == (1, "algo-1")


def test_variables_override_files(tmp_path: Path) -> None:
    write_job(tmp_path, {"epochs": "2"}, {"train": {"a.csv": "x"}})
    job = read_job(
        environment(
            tmp_path,
            SM_HPS='{"epochs": 5}',
            SM_CHANNEL_TRAIN="/elsewhere",
            SM_CHANNEL_NEW="/new",
            SM_MODEL_DIR="/m",
            SM_OUTPUT_DATA_DIR="/o",
            SM_HOSTS='["a", "b"]',
            SM_CURRENT_HOST="b",
            SM_NETWORK_INTERFACE_NAME="eth7",
        )
    )
    assert job.hyperparameters == {"epochs": "5"}
    assert job.channels == {"train": Path("/elsewhere"), "new": Path("/new")}
    assert (str(job.model), str(job.output_data)) == ("/m", "/o")
    assert (job.rank, job.interface) == (1, "eth7")


@pytest.mark.parametrize(
    ("files", "variables", "message"),
    [
        ({"hyperparameters.json": "{"}, {}, "is not valid JSON"),
        ({"hyperparameters.json": "[]"}, {}, "not a JSON object"),
        ({}, {"SM_HPS": "{"}, "SM_HPS is no JSON"),
        ({}, {"SM_HPS": "[1]"}, "SM_HPS holds no JSON object"),
        ({}, {"SM_HOSTS": "algo-1"}, "SM_HOSTS is no JSON"),
        ({}, {"SM_HOSTS": '{"a": 1}'}, "no list of names"),
        ({"resourceconfig.json": '{"hosts": []}'}, {}, "no list of names"),
        ({"resourceconfig.json": '{"hosts": ["a"], "current_host": "b"}'}, {}, "this host, b, is not one of"),
        ({"inputdataconfig.json": '{"train": {"TrainingInputMode": "Pipe"}}'}, {}, "comes as a pipe"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, files: dict[str, str], variables: dict[str, str], message: str) -> None:
    config = tmp_path / "input" / "config"
    config.mkdir(parents=True)
    for name, text in files.items():
        (config / name).write_text(text)
    with pytest.raises(UserError, match=message):
        read_job(environment(tmp_path, **variables))


def test_hosts_are_waited_for() -> None:
    tries: list[str] = []

    def late(host: str) -> str:
        tries.append(host)
        if host == "algo-2" and tries.count(host) < 3:
            raise OSError("no such name")
        return "10.0.0.1"

    wait_for_hosts(("algo-1", "algo-2"), 0.5, late)
    assert tries == ["algo-1", "algo-2", "algo-2", "algo-2"]

    def never(host: str) -> str:
        raise OSError("no such name")

    with pytest.raises(UserError, match=r"algo-1 has no address after 0\.01 s"):
        wait_for_hosts(("algo-1",), 0.01, never)


def test_no_more_of_a_failure_is_written_than_is_read(tmp_path: Path) -> None:
    write_failure(places(environment(tmp_path)), "é\udcff" * 5000)
    assert (tmp_path / "output" / "failure").read_text() == "é?" * 512


ORACLE = """
import json
import os
from sagemaker_training.environment import Environment
print(json.dumps(Environment().to_env_vars(), default=str))
"""


def test_the_toolkit_makes_variables_that_say_the_same_as_the_files(tmp_path: Path) -> None:
    """AWS's own ``sagemaker-training`` reads the files; what it puts into ``SM_*`` must be the job that we read."""
    if find_spec("sagemaker_training") is None:
        pytest.skip("needs AWS's toolkit as the reference: pip install sagemaker-training")
    hyperparameters = {"epochs": "2", "lr": "1e-4", "text_column": '"review"', "balanced": "true", "note": "as it is"}
    write_job(tmp_path / "job", hyperparameters, {"train": {"a.csv": "x"}, "dev": {"b.csv": "y"}}, hosts=["localhost"])
    for folder in ("code", "output/intermediate", "model", "checkpoints"):
        (tmp_path / "job" / folder).mkdir(parents=True, exist_ok=True)
    told = subprocess.run(
        [sys.executable, "-c", ORACLE], capture_output=True, text=True, check=True, env=oracle_environment(tmp_path)
    )
    variables = {name: str(value) for name, value in json.loads(told.stdout.splitlines()[-1]).items()}
    assert {"SM_HPS", "SM_MODEL_DIR", "SM_CHANNEL_TRAIN", "SM_HOSTS", "SM_CURRENT_HOST"} <= set(variables)
    ours, theirs = read_job(environment(tmp_path / "job")), read_job(environment(tmp_path / "nothing", **variables))
    floats = {name: float(job.hyperparameters.pop("lr")) for name, job in (("ours", ours), ("theirs", theirs))}
    assert floats["ours"] == floats["theirs"]  # it writes 1e-4 as 0.0001
    assert ours == theirs


def oracle_environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SAGEMAKER_BASE_DIR": str(folder / "job")}
