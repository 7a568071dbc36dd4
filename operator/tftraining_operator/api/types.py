"""The spec of a TFTrainingJob: the single source of the CRD, its defaults and `kubectl explain`.

Field docstrings become descriptions in the CRD. Parsing is strict, as the API server is: what one
of them refuses, the other refuses as well. Pod templates are typed only where we read them; all
else in them is kept as the user wrote it.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from tftraining_operator.api import keys
from tftraining_operator.api.base import INTEGRAL, Model, Shell, StringMap, map_by, unique

MAX_REPLICAS = 1000
MAX_CONTAINERS = 32
MAX_ITEMS = 256


class Strategy(StrEnum):
    """TensorFlow's distribution strategy."""

    PARAMETER_SERVER = "ParameterServer"
    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    MIRRORED = "Mirrored"


class RestartPolicy(StrEnum):
    """What a failed replica of a role means."""

    EXIT_CODE = "ExitCode"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job is finished."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class EnvVar(Shell):
    """One environment variable of a container."""

    name: str


class Container(Shell):
    """One container of a pod template."""

    name: Annotated[str, Field(max_length=63)]
    image: str | None = None
    env: Annotated[list[EnvVar], Field(max_length=MAX_ITEMS)] | None = None


class TemplateMetadata(Shell):
    """Labels and annotations of the pods."""

    labels: StringMap | None = None
    annotations: StringMap | None = None


class PodSpec(Shell):
    """The pods' spec: any field of a Kubernetes PodSpec."""

    containers: (
        Annotated[
            list[Container],
            Field(max_length=MAX_CONTAINERS, json_schema_extra=map_by("name")),
            AfterValidator(unique("name")),
        ]
        | None
    ) = None


class PodTemplate(Shell):
    """A Kubernetes PodTemplateSpec; the container that trains is named `tensorflow`."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations for the pods."""
    spec: PodSpec | None = None
    """Any field of a Kubernetes PodSpec."""

    def as_dict(self) -> dict[str, Any]:
        """Return the template as the user wrote it, as plain JSON data."""
        dumped: dict[str, Any] = self.model_dump(by_alias=True, exclude_unset=True)
        return dumped


class _Role(Model):
    template: PodTemplate | None = None
    """Pod template of this role, merged over spec.template."""
    restart_policy: RestartPolicy = RestartPolicy.EXIT_CODE
    """ExitCode restarts what a restart can help; OnFailure restarts always; Never fails the job."""


class Chief(_Role):
    """The coordinator: it drives the training and decides the job's end."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Always 1."""


class Worker(_Role):
    """Workers compute gradients on their share of the data."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Number of workers; may be changed while the job runs."""
    min_replicas: Annotated[int | None, Field(ge=1, le=MAX_REPLICAS)] = None
    """Workers that suffice: one that stays away is left out until it is back; not set, all are."""


class ParameterServer(_Role):
    """Parameter servers hold the model's variables."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Number of parameter servers."""


class Evaluator(_Role):
    """The evaluator follows the checkpoints, outside the training cluster."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """0 or 1."""


class PersistentVolumeClaim(Model):
    """A claim in the job's namespace."""

    claim_name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of a PersistentVolumeClaim in the job's own namespace."""


class EmptyDir(Model):
    """A volume that lives as long as its pod."""


class Checkpoint(Model):
    """Where checkpoints are kept: exactly one of persistentVolumeClaim, uri and emptyDir."""

    persistent_volume_claim: PersistentVolumeClaim | None = None
    """A claim that the chief writes and the evaluator reads."""
    uri: Annotated[str | None, Field(max_length=2048)] = None
    """Object storage that TensorFlow can write, such as gs://bucket/path."""
    empty_dir: EmptyDir | None = None
    """Survives a restart of a container, not the loss of the chief's pod."""
    path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/.+")] = "/checkpoints"
    """Where the volume is mounted; ignored with uri."""


class RunPolicy(Model):
    """When the job is restarted, stopped, cleaned up and deleted."""

    suspend: bool = False
    """While true the job has no pods; its checkpoint stays."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000), INTEGRAL] = 3
    """Counted restarts before the job is Failed."""
    active_deadline_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), INTEGRAL] = None
    """Seconds from start to Failed if not finished by then; paused while suspended."""
    startup_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1), INTEGRAL] = 600
    """Seconds within which all pods must be ready once; then Failed with the culprit named."""
    recovery_deadline_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), INTEGRAL] = None
    """Fail the job if training stops and is not running again within this time; off if unset."""
    stall_timeout_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), INTEGRAL] = None
    """Seconds without a new step after which the chief is restarted, counted."""
    # No default, as for every new field of a spec: stored in each job, it would make the version
    # before reject them all after a rollback.
    stop_on_repeated_failure: bool | None = None
    """Fail the job when the same exception occurs three times in a row at the same step; true if
    unset."""
    evaluator_grace_seconds: Annotated[int, Field(ge=0, le=2**31 - 1), INTEGRAL] = 120
    """Seconds the evaluator may take for the last checkpoint after the chief succeeded."""
    ttl_seconds_after_finished: Annotated[int | None, Field(ge=0, le=2**31 - 1), INTEGRAL] = None
    """Seconds after the end until the job is deleted; kept for ever if not set."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """Which pods are deleted at the end: Running, All or None."""
    managed_by: Annotated[str, Field(min_length=1, max_length=63)] = keys.MANAGED_BY
    """Which controller takes care of this job; another value than the default stops ours."""


class Spec(Model):
    """What to train, with which replicas, and how to run it."""

    strategy: Strategy = Strategy.PARAMETER_SERVER
    """TensorFlow's distribution strategy."""
    template: PodTemplate | None = None
    """Pod template shared by all roles; the container that trains is named `tensorflow`."""
    chief: Chief = Chief()
    """The coordinator; always one, may be left out."""
    worker: Worker | None = None
    """Workers; needed under ParameterServer and MultiWorkerMirrored."""
    ps: ParameterServer | None = None
    """Parameter servers; needed under ParameterServer, refused under other strategies."""
    evaluator: Evaluator | None = None
    """Side-car evaluator; optional, at most one."""
    checkpoint: Checkpoint | None = None
    """Where checkpoints are kept; without it a restart begins at step 0."""
    run_policy: RunPolicy = RunPolicy()
    """When the job is restarted, stopped, cleaned up and deleted."""

    def replicas(self, role: keys.Role) -> int:
        """Return how many pods of `role` this spec asks for."""
        given = getattr(self, role.value)
        return given.replicas if given is not None else 0

    def role(self, role: keys.Role) -> _Role | None:
        """Return the fields that all roles share, None for a role that is not asked for."""
        given: _Role | None = getattr(self, role.value)
        return given


class ObjectMeta(Model):
    """The part of metadata that the operator reads."""

    model_config = ConfigDict(extra="ignore")

    name: str
    namespace: str
    uid: str
    generation: int = 1


def parse_spec(raw: dict[str, Any]) -> Spec:
    """Parse a spec as strictly as the API server does. Raises pydantic.ValidationError."""
    # JSON mode: strict, yet a string may be an enum, as it is in JSON.
    return Spec.model_validate_json(json.dumps(raw), by_alias=True, by_name=False)
