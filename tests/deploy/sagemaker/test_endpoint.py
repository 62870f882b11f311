"""An endpoint from the folder of a model to an address and back to nothing. moto stands in for AWS."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError, WaiterError
from moto.sagemaker.models import SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse
from moto.server import ThreadedMotoServer
from sagemaker_support import serving

from d2lbert import UserError
from d2lbert.deploy.sagemaker.endpoint import Endpoint, EndpointSettings, pack
from d2lbert.deploy.sagemaker.fake_runtime import fake_runtime

ROLE = "arn:aws:iam::123456789012:role/reader"
IMAGE = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/d2lbert:1"
NAME = {"ServiceNamespace": "sagemaker", "ResourceIds": ["endpoint/films/variant/AllTraffic"]}


def update_endpoint(self: SageMakerResponse) -> Any:
    """What moto does not have: another configuration for an endpoint that is there."""
    backend: SageMakerModelBackend = self.sagemaker_backend
    name, version = self._get_param("EndpointName"), self._get_param("EndpointConfigName")
    backend.describe_endpoint(name)
    backend.create_endpoint(name, version, [])  # refuses a configuration that is not there
    return self.describe_endpoint()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of AWS."""
    SageMakerResponse.update_endpoint = update_endpoint
    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    del SageMakerResponse.update_endpoint


@pytest.fixture
def aws(address: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """boto3, which finds an empty AWS with one bucket."""
    values = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu-west-1"}
    for name, value in {**values, "AWS_ENDPOINT_URL": address}.items():
        monkeypatch.setenv(name, value)
    httpx.post(f"{address}/moto-api/reset").raise_for_status()
    boto3.client("s3").create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    return boto3.client("sagemaker")


@pytest.fixture
def model(aws: Any, folder: Path) -> str:
    """The address of an uploaded model."""
    return Endpoint("films").upload(folder, "models")


def left(aws: Any) -> list[str]:
    """Return the names of all that is there and would be paid for, or be in the way."""
    kinds = (("endpoints", "Endpoint"), ("endpoint_configs", "EndpointConfig"), ("models", "Model"))
    return [
        f"{kind} {row[f'{kind}Name']}" for many, kind in kinds for row in getattr(aws, f"list_{many}")()[f"{kind}s"]
    ]


def test_the_archive_has_the_model_at_its_top_and_is_the_same_each_time(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        pack(folder, tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with tarfile.open(tmp_path / "a") as archive:
        assert {"config.json", "model.safetensors", "vocab.txt"} <= set(archive.getnames())


def test_a_model_is_uploaded(model: str, folder: Path, tmp_path: Path) -> None:
    bucket, _, key = model.removeprefix("s3://").partition("/")
    stored = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(stored)) as archive:
        assert archive.extractfile("config.json").read() == (folder / "config.json").read_bytes()
    with pytest.raises(UserError, match=r"is no folder of a model: it has no config\.json"):
        Endpoint("films").upload(tmp_path, "models")
    with pytest.raises(UserError, match="nowhere"):
        Endpoint("films").upload(folder, "nowhere")


def test_from_a_folder_to_an_address_and_back_to_nothing(aws: Any, model: str) -> None:
    endpoint = Endpoint("films")
    endpoint.create(IMAGE, model, ROLE)
    assert aws.describe_endpoint(EndpointName="films")["EndpointStatus"] == "InService"
    assert left(aws) == ["Endpoint films", "EndpointConfig films-1", "Model films-1"]
    container = aws.describe_model(ModelName="films-1")["PrimaryContainer"]
    assert (container["Image"], container["ModelDataUrl"]) == (IMAGE, model)
    assert sorted(endpoint.tear_down()) == ["endpoint config films-1", "endpoint films", "model films-1"]
    assert left(aws) == []
    assert endpoint.tear_down() == [], "what is gone is no error"


def test_an_update_leaves_one_version(aws: Any, model: str) -> None:
    endpoint = Endpoint("films")
    endpoint.create(IMAGE, model, ROLE, EndpointSettings(most_instances=3))
    endpoint.update(IMAGE.replace(":1", ":2"), model, ROLE, EndpointSettings(instance_type="ml.c5.large"))
    assert left(aws) == ["Endpoint films", "EndpointConfig films-2", "Model films-2"]
    (variant,) = aws.describe_endpoint_config(EndpointConfigName="films-2")["ProductionVariants"]
    assert variant["InstanceType"] == "ml.c5.large"
    assert aws.describe_model(ModelName="films-2")["PrimaryContainer"]["Image"].endswith(":2")
    assert not boto3.client("application-autoscaling").describe_scalable_targets(**NAME)["ScalableTargets"]


def test_an_update_keeps_the_machines_unless_it_is_told_others(
    aws: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = []
    monkeypatch.setattr(
        SageMakerResponse,
        "update_endpoint",
        lambda self: told.append(self._get_param("RetainAllVariantProperties")) or update_endpoint(self),
    )
    endpoint = Endpoint("films")
    settings = EndpointSettings("ml.c5.large", 2, 4, invocations=700, startup_seconds=90)
    endpoint.create(IMAGE, model, ROLE, settings)
    endpoint.update(IMAGE, model, ROLE)
    assert endpoint._settings("films-2") == settings
    endpoint.update(IMAGE, model, ROLE, EndpointSettings())
    assert endpoint._settings("films-3") == EndpointSettings()
    assert told == [True, None]


def test_autoscaling_is_on_where_more_machines_are_allowed(aws: Any, model: str) -> None:
    endpoint = Endpoint("films")
    endpoint.create(IMAGE, model, ROLE, EndpointSettings(instances=2, most_instances=5, invocations=700))
    scaling = boto3.client("application-autoscaling")
    (target,) = scaling.describe_scalable_targets(**NAME)["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 5)
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    aim = policy["TargetTrackingScalingPolicyConfiguration"]
    assert aim["TargetValue"] == 700
    assert aim["PredefinedMetricSpecification"]["PredefinedMetricType"] == "SageMakerVariantInvocationsPerInstance"
    endpoint.tear_down()
    assert not scaling.describe_scalable_targets(**NAME)["ScalableTargets"]


def test_a_refused_step_leaves_nothing(aws: Any, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("films")
    monkeypatch.setattr(endpoint, "_wait", lambda: None)
    real = endpoint._sagemaker.create_endpoint
    monkeypatch.setattr(
        endpoint._sagemaker, "create_endpoint", lambda **given: real(EndpointName="x", EndpointConfigName="none")
    )
    with pytest.raises(UserError, match=r"CreateEndpoint: Could not find .*\(ValidationException\)"):
        endpoint.create(IMAGE, model, ROLE)
    assert left(aws) == []


def test_an_endpoint_that_is_there_is_not_made_again(aws: Any, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Endpoint("films").create(IMAGE, model, ROLE)
    endpoint = Endpoint("films")

    def refuse(**given: Any) -> None:  # moto replaces it
        raise ClientError({"Error": {"Code": "ValidationException", "Message": "already there"}}, "CreateEndpoint")

    monkeypatch.setattr(endpoint._sagemaker, "create_endpoint", refuse)
    with pytest.raises(UserError, match="already there"):
        endpoint.create(IMAGE, model, ROLE)
    assert left(aws) == ["Endpoint films", "EndpointConfig films-1", "Model films-1"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("nowhere", "Could not find"),
        ("films", "the endpoint films did not start with films-2: no reason is given, its state is InService"),
    ],
)
def test_a_failed_update_keeps_the_old_version(
    aws: Any, model: str, monkeypatch: pytest.MonkeyPatch, asked: str, told: str
) -> None:
    """It is refused; or accepted, and then AWS goes back, as it does where the new machines do not start."""
    endpoint = Endpoint("films")
    endpoint.create(IMAGE, model, ROLE, EndpointSettings(instances=2, most_instances=5, invocations=700))

    def update(**given: Any) -> None:
        endpoint._sagemaker.describe_endpoint(EndpointName=asked)

    monkeypatch.setattr(endpoint._sagemaker, "update_endpoint", update)
    with pytest.raises(UserError, match=told):
        endpoint.update(IMAGE, model, ROLE)
    assert left(aws) == ["Endpoint films", "EndpointConfig films-1", "Model films-1"]
    scaling = boto3.client("application-autoscaling")
    (target,) = scaling.describe_scalable_targets(**NAME)["ScalableTargets"]
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 5)
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 700


def test_an_update_leaves_alone_what_another_tool_has_made(aws: Any, model: str) -> None:
    endpoint = Endpoint("films")
    endpoint.create(IMAGE, model, ROLE)
    variant = aws.describe_endpoint_config(EndpointConfigName="films-1")["ProductionVariants"][0]
    aws.create_endpoint_config(EndpointConfigName="by-hand", ProductionVariants=[variant])
    aws.update_endpoint(EndpointName="films", EndpointConfigName="by-hand")
    endpoint.update(IMAGE, model, ROLE)
    assert "EndpointConfig by-hand" in left(aws)


def test_an_endpoint_that_does_not_start_says_why_and_is_removed(
    aws: Any, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint("films")
    describe, get_waiter = endpoint._sagemaker.describe_endpoint, endpoint._sagemaker.get_waiter

    class Waiter:
        def wait(self, **given: Any) -> None:
            raise WaiterError("endpoint_in_service", "Waiter encountered a terminal failure state", {})

    def failed(**given: Any) -> dict[str, Any]:
        reason = "The primary container did not pass the ping health check."
        return {**describe(**given), "EndpointStatus": "Failed", "FailureReason": reason}

    waiters = {"endpoint_in_service": lambda name: Waiter(), "endpoint_deleted": get_waiter}
    monkeypatch.setattr(endpoint._sagemaker, "get_waiter", lambda name: waiters[name](name))
    monkeypatch.setattr(endpoint._sagemaker, "describe_endpoint", failed)
    with pytest.raises(UserError, match="did not start with films-1: The primary container did not pass"):
        endpoint.create(IMAGE, model, ROLE)
    assert left(aws) == []


def test_a_role_that_may_not_scale_still_stops_the_bill(aws: Any, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("films")
    endpoint.create(IMAGE, model, ROLE)
    refusal = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "DescribeScalableTargets")

    def refuse(**given: Any) -> None:
        raise refusal

    monkeypatch.setattr(endpoint._scaling, "describe_scalable_targets", refuse)
    with pytest.raises(UserError, match=r"DescribeScalableTargets: no \(AccessDeniedException\)"):
        endpoint.tear_down()
    assert left(aws) == []


def test_other_endpoints_of_similar_names_are_left_alone(aws: Any, model: str) -> None:
    for name in ("films", "films-new", "films-1"):
        Endpoint(name).create(IMAGE, model, ROLE)
    Endpoint("films").tear_down()
    assert left(aws) == [
        "Endpoint films-new", "Endpoint films-1", "EndpointConfig films-new-1", "EndpointConfig films-1-1",
        "Model films-new-1", "Model films-1-1",
    ]  # fmt: skip


def test_no_region_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(UserError, match="no region is known: set AWS_DEFAULT_REGION"):
        Endpoint("films")


def test_requests_go_through_boto3_to_the_container(
    aws: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").symlink_to(folder)
    with serving(tmp_path) as (_, client), fake_runtime(client.base_url.port) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", address)
        endpoint, content = Endpoint("films"), {"text": "a warm and funny film"}
        assert endpoint.invoke(content) == client.post("/invocations", json=content).json()
        with pytest.raises(UserError, match=r"InvokeEndpoint: Received client error \(422\).*a text is empty"):
            endpoint.invoke({"text": ""})
        with pytest.raises(UserError, match=r"\(413\)"):
            endpoint.invoke({"text": "word " * 2_000_000})


def test_one_endpoint_of_many_models(aws: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("films")
    address = endpoint.upload(folder, "models")
    prefix = "s3://models/models/films/"
    endpoint.create(IMAGE, prefix, ROLE, EndpointSettings(multi_model=True))
    made = aws.describe_model(ModelName="films-1")["PrimaryContainer"]
    assert (made["Mode"], made["ModelDataUrl"]) == ("MultiModel", prefix)
    name = address.removeprefix(prefix)
    bucket = tmp_path / "bucket"
    (bucket / name).parent.mkdir(parents=True)
    boto3.client("s3").download_file("models", f"models/films/{name}", str(bucket / name))
    with (
        serving(tmp_path, **made["Environment"]) as (_, client),
        fake_runtime(client.base_url.port, models=bucket) as runtime,
    ):
        monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", runtime)
        endpoint, content = Endpoint("films"), {"text": "a warm and funny film"}
        answers = [endpoint.invoke(content, name) for _ in range(2)]
        (loaded,) = client.get("/models").json()["models"]
        told = client.post(f"/models/{loaded['modelName']}/invoke", json=content).json()
        assert answers == [told, told], "it is loaded once, and answers twice"
        with pytest.raises(UserError, match=r"there is no archive other/model\.tar\.gz \(ValidationError\)"):
            endpoint.invoke(content, "other/model.tar.gz")
        with pytest.raises(UserError, match=r"holds many models: name one as the target model \(ValidationError\)"):
            endpoint.invoke(content)
