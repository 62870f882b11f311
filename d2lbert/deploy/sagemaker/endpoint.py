"""An endpoint of SageMaker, from the folder of a model to an address and back to nothing, by calls of boto3.

Everything that is made for an endpoint bears its name, so that :meth:`Endpoint.tear_down` finds it again: what is left
behind is paid for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import json
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from d2lbert.config.settings import Settings, setting
from d2lbert.errors import UserError, require
from d2lbert.storage.files import sha256_of
from d2lbert.weights.folder import CONFIG_FILE

ARCHIVE = "model.tar.gz"
_VARIANT = "AllTraffic"
_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_METRIC = "SageMakerVariantInvocationsPerInstance"


@dataclass(frozen=True)
class EndpointSettings(Settings):
    """The machines of an endpoint."""

    kind: ClassVar[str] = "endpoint"

    instance_type: str = setting("ml.c5.xlarge", "of each machine")
    instances: int = setting(1, "machines at the start, and the fewest", at_least=1)
    most_instances: int = setting(1, "machines under load; more than instances turns autoscaling on", at_least=1)
    invocations: int = setting(600, "requests a minute on each machine that autoscaling aims at", at_least=1)
    multi_model: bool = setting(False, "whether the address of the model is a prefix, below which lie archives of many")
    startup_seconds: int = setting(300, "until a machine must answer /ping", at_least=60, at_most=3600)


class Endpoint:
    """An endpoint under its name.

    Args:
        name: of the endpoint.
        session: of boto3, with region and credentials; None for the default one.

    Raises:
        UserError: boto3 is not installed, or no region is known.
    """

    def __init__(self, name: str, session: Any = None) -> None:
        require("an endpoint", "sagemaker", "boto3")
        import boto3

        session = session or boto3.Session()
        if session.region_name is None:
            raise UserError("no region is known: set AWS_DEFAULT_REGION, to eu-west-1 for instance")
        self.name = name
        self._s3 = session.client("s3")
        self._sagemaker = session.client("sagemaker")
        self._scaling = session.client("application-autoscaling")
        self._runtime = session.client("sagemaker-runtime")

    def upload(self, folder: str | Path, bucket: str, prefix: str = "models") -> str:
        """Pack the folder of a model and upload it. The digest of the archive is in its address.

        Returns:
            The address, ``s3://...``.

        Raises:
            UserError: it is no folder of a model, or AWS refuses.
        """
        folder = Path(folder)
        if not (folder / CONFIG_FILE).is_file():
            raise UserError(f"{folder} is no folder of a model: it has no {CONFIG_FILE}")
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, ARCHIVE)
            pack(folder, path)
            key = f"{prefix}/{self.name}/{sha256_of(path)[:12]}/{ARCHIVE}"
            with _told():
                self._s3.upload_file(str(path), bucket, key)
        return f"s3://{bucket}/{key}"

    def create(self, image: str, model: str, role: str, settings: EndpointSettings | None = None) -> None:
        """Make the endpoint and wait until it answers. Whoever interrupts it calls :meth:`tear_down`.

        Args:
            image: address of the container in ECR.
            model: what :meth:`upload` returned; of an endpoint of many models a prefix of such addresses, such as
                ``s3://bucket/models/``.
            role: ARN of the role that SageMaker takes to read both.

        Raises:
            UserError: AWS refuses, or it does not start; then nothing is left of it.
        """
        settings = settings or EndpointSettings()
        version = self._version(image, model, role, settings)
        try:
            with _told():
                self._sagemaker.create_endpoint(EndpointName=self.name, EndpointConfigName=version)
        except UserError:
            self._remove_version(version)
            raise
        try:
            self._wait(version)
            self._scale(settings)
        except UserError:
            self.tear_down()
            raise

    def update(self, image: str, model: str, role: str, settings: EndpointSettings | None = None) -> None:
        """Put another model, image or machines behind the same address. The old ones answer until the new ones do.

        The old version is removed once the new one answers ``/ping``.

        Args:
            image, model, role: as of :meth:`create`.
            settings: of the new version; None keeps those of the old one, and as many machines as there are now.

        Raises:
            UserError: AWS refuses; then the old ones stay.
        """
        before = self._describe()["EndpointConfigName"]
        kept = {} if settings else {"RetainAllVariantProperties": True}
        settings = settings or self._settings(before)
        version = self._version(image, model, role, settings)
        scaled: EndpointSettings | None = None
        try:
            scaled = self._unscale()  # AWS refuses to change the kind of machine of what it scales
            with _told():
                self._sagemaker.update_endpoint(EndpointName=self.name, EndpointConfigName=version, **kept)
            self._wait(version)
        except UserError:
            now = self._describe()
            if now["EndpointStatus"] == "InService" and now["EndpointConfigName"] != version:
                self._remove_version(version)
            if scaled is not None:
                self._scale(scaled)
            raise
        if before in self._versions():  # else somebody else has made it
            self._remove_version(before)
        self._scale(settings)

    def invoke(self, content: Any, model: str = "") -> Any:
        """Return the answer to one request, JSON in and out.

        Args:
            content: of the request.
            model: of an endpoint of many models, the one that is asked: its address without the prefix of the endpoint.

        Raises:
            UserError: the endpoint refuses; the message is the container's.
        """
        target = {"TargetModel": model} if model else {}
        with _told():
            answer = self._runtime.invoke_endpoint(
                EndpointName=self.name, ContentType="application/json", Body=json.dumps(content).encode(), **target
            )
        return json.loads(answer["Body"].read())

    def tear_down(self) -> list[str]:
        """Remove the endpoint and all that was made for it but the uploaded models. What is gone already is no error.

        Returns:
            What was removed.

        Raises:
            UserError: AWS refuses.
        """
        removed = []
        with _told():
            if _missing_is_false(self._sagemaker.describe_endpoint, EndpointName=self.name):
                self._sagemaker.delete_endpoint(EndpointName=self.name)
                self._sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=self.name)
                removed.append(f"endpoint {self.name}")
        for version in self._versions():
            removed += self._remove_version(version)
        self._unscale()  # costs nothing, so it comes last: a role that may not do it still stops the bill
        return removed

    def _version(self, image: str, model: str, role: str, settings: EndpointSettings) -> str:
        """Make a model and a configuration of one name, new for each version, and return the name."""
        name = f"{self.name}-{len(self._versions()) + 1}"
        while name in self._versions():
            name = f"{self.name}-{int(name.rpartition('-')[2]) + 1}"
        variant = {
            "VariantName": _VARIANT,
            "ModelName": name,
            "InstanceType": settings.instance_type,
            "InitialInstanceCount": settings.instances,
            "ContainerStartupHealthCheckTimeoutInSeconds": settings.startup_seconds,
        }
        container: dict[str, Any] = {"Image": image, "ModelDataUrl": model}
        if settings.multi_model:
            container |= {"Mode": "MultiModel", "Environment": {"SAGEMAKER_MULTI_MODEL": "true"}}
        with _told():
            self._sagemaker.create_model(ModelName=name, PrimaryContainer=container, ExecutionRoleArn=role)
        try:
            with _told():
                self._sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
        except UserError:
            self._remove_version(name)
            raise
        return name

    def _settings(self, version: str) -> EndpointSettings:
        """Return the settings of a version that answers."""
        with _told():
            config = self._sagemaker.describe_endpoint_config(EndpointConfigName=version)
            (variant,) = config["ProductionVariants"]
            container = self._sagemaker.describe_model(ModelName=variant["ModelName"])["PrimaryContainer"]
        settings = EndpointSettings(
            instance_type=variant["InstanceType"],
            instances=variant["InitialInstanceCount"],
            multi_model=container.get("Mode") == "MultiModel",
            startup_seconds=variant["ContainerStartupHealthCheckTimeoutInSeconds"],
        )
        return dataclasses.replace(settings, **self._scaled())

    def _versions(self) -> list[str]:
        """Return the names of all models and configurations that were made for this endpoint."""
        found = set()
        with _told():
            for kind, key in (("endpoint_configs", "EndpointConfigName"), ("models", "ModelName")):
                pages = self._sagemaker.get_paginator(f"list_{kind}").paginate(NameContains=self.name)
                rows = [row for page in pages for row in page["EndpointConfigs" if "configs" in kind else "Models"]]
                found |= {row[key] for row in rows}
        own = [name for name in found if name.rpartition("-")[0] == self.name and name.rpartition("-")[2].isdecimal()]
        return sorted(own, key=lambda name: int(name.rpartition("-")[2]))

    def _remove_version(self, name: str) -> list[str]:
        removed = []
        for kind, key in (("endpoint_config", "EndpointConfigName"), ("model", "ModelName")):
            with _told():
                if _missing_is_false(getattr(self._sagemaker, f"describe_{kind}"), **{key: name}):
                    getattr(self._sagemaker, f"delete_{kind}")(**{key: name})
                    removed.append(f"{kind.replace('_', ' ')} {name}")
        return removed

    def _describe(self) -> dict[str, Any]:
        with _told():
            return dict(self._sagemaker.describe_endpoint(EndpointName=self.name))

    def _wait(self, version: str) -> None:
        """Wait until the endpoint answers with a version.

        Raises:
            UserError: it does not start, or answers with an older version again; the message says why.
        """
        from botocore.exceptions import WaiterError

        with contextlib.suppress(WaiterError):
            self._sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=self.name)
        found = self._describe()
        # After an update whose machines do not start, AWS goes back, and the endpoint is in service as before.
        if found["EndpointStatus"] != "InService" or found["EndpointConfigName"] != version:
            reason = found.get("FailureReason", f"no reason is given, its state is {found['EndpointStatus']}")
            raise UserError(f"the endpoint {self.name} did not start with {version}: {reason}")

    @property
    def _target(self) -> dict[str, str]:
        resource = f"endpoint/{self.name}/variant/{_VARIANT}"
        return {"ServiceNamespace": "sagemaker", "ResourceId": resource, "ScalableDimension": _DIMENSION}

    @property
    def _policy(self) -> str:
        return f"{self.name}-invocations"

    def _scale(self, settings: EndpointSettings) -> None:
        """Turn autoscaling on where more machines are allowed than there are at the start."""
        if settings.most_instances <= settings.instances:
            return
        aim = {
            "TargetValue": float(settings.invocations),
            "PredefinedMetricSpecification": {"PredefinedMetricType": _METRIC},
            "ScaleInCooldown": 300,
            "ScaleOutCooldown": 60,
        }
        with _told():
            self._scaling.register_scalable_target(
                **self._target, MinCapacity=settings.instances, MaxCapacity=settings.most_instances
            )
            self._scaling.put_scaling_policy(
                **self._target,
                PolicyName=self._policy,
                PolicyType="TargetTrackingScaling",
                TargetTrackingScalingPolicyConfiguration=aim,
            )

    def _scaled(self) -> dict[str, Any]:
        """Return the settings of autoscaling, by name; empty where it is off."""
        resource = self._target["ResourceId"]
        with _told():
            targets = self._scaling.describe_scalable_targets(ServiceNamespace="sagemaker", ResourceIds=[resource])
            policies = self._scaling.describe_scaling_policies(ServiceNamespace="sagemaker", ResourceId=resource)
        if not targets["ScalableTargets"]:
            return {}
        (target,) = targets["ScalableTargets"]
        found: dict[str, Any] = {"instances": target["MinCapacity"], "most_instances": target["MaxCapacity"]}
        for policy in policies["ScalingPolicies"]:
            if policy["PolicyName"] == self._policy:
                found["invocations"] = round(policy["TargetTrackingScalingPolicyConfiguration"]["TargetValue"])
        return found

    def _unscale(self) -> EndpointSettings | None:
        """Turn autoscaling off where it is on, and return what it was; its policies go with its target."""
        found = self._scaled()
        if not found:
            return None
        with _told():
            self._scaling.deregister_scalable_target(**self._target)
        return EndpointSettings(**found)


def pack(folder: Path, path: Path) -> None:
    """Write the files of a model into an archive, ``config.json`` at its top. The same files give the same bytes."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, 0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for file in files:
            archive.add(file, file.relative_to(folder).as_posix(), filter=_without_origin)


def _without_origin(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry


def _missing_is_false(describe: Any, **name: str) -> bool:
    """Whether a thing exists: SageMaker answers "could not find" with the code of every other wrong request."""
    from botocore.exceptions import ClientError

    try:
        describe(**name)
    except ClientError as error:
        if "could not find" in error.response["Error"].get("Message", "").lower():
            return False
        raise
    return True


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """In this context what AWS refuses is one line.

    Raises:
        UserError: it refused something, or cannot be reached.
    """
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        told = error.response["Error"]
        raise UserError(f"{error.operation_name}: {told.get('Message', '')} ({told.get('Code', 'no code')})") from None
    except (BotoCoreError, Boto3Error) as error:
        raise UserError(f"AWS: {' '.join(str(error).split())}; check credentials, region and network") from None
