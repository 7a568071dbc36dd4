"""The spec of a TFTrainingJob: the single source of the CRD, its defaults and `kubectl explain`.

Field docstrings become descriptions in the CRD. Parsing is strict, as the API server is: what one
of them refuses, the other refuses as well. Pod templates are typed only where we read them; all
else in them is kept as the user wrote it.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema

from tftraining_operator.api import keys
from tftraining_operator.api.base import INTEGRAL, Model, Shell, StringMap, map_by, unique
from tftraining_operator.api.disruption import Disruption
from tftraining_operator.api.network import Network
from tftraining_operator.api.scheduling import Scheduling

MAX_REPLICAS = 1000
MAX_CONTAINERS = 32
MAX_ITEMS = 256


class Strategy(StrEnum):
    """TensorFlow distribution strategy."""

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


# Of any type in the CRD: of an object, whose fields are not declared, CEL sees no change.
_InitContainer = Annotated[
    dict[str, Any], WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})
]


class PodSpec(Shell):
    """Spec of the pods: any field of a Kubernetes PodSpec."""

    containers: (
        Annotated[
            list[Container],
            Field(max_length=MAX_CONTAINERS, json_schema_extra=map_by("name")),
            AfterValidator(unique("name")),
        ]
        | None
    ) = None
    init_containers: Annotated[list[_InitContainer], Field(max_length=MAX_CONTAINERS)] | None = None


class PodTemplate(Shell):
    """A Kubernetes PodTemplateSpec. The container that trains must be named tensorflow."""

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
    """Pod template for this role, merged over spec.template."""
    restart_policy: RestartPolicy = RestartPolicy.EXIT_CODE
    """What to do when a pod fails. ExitCode: restart it, unless its exit code means that a restart
    cannot help. OnFailure: restart it. Never: fail the job."""


class Chief(_Role):
    """The coordinator: it runs the training loop, and its result is the job's result."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Always 1."""


class Worker(_Role):
    """Workers, which process the training data."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Number of workers. Can be changed while the job runs."""
    min_replicas: Annotated[int | None, Field(ge=1, le=MAX_REPLICAS)] = None
    """Minimum number of workers needed to continue. An unavailable worker is excluded until it
    recovers. If unset, none is excluded: training continues with the workers that are there, but
    TensorFlow lets none rejoin while another one is unavailable."""


class ParameterServer(_Role):
    """Parameter servers, which store the model's variables."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Number of parameter servers."""
    mount_checkpoint: bool | None = None
    """Mount the claim of spec.checkpoint in the parameter servers too: each then saves and restores
    its own variables, which the chief does otherwise. Requires a claim that can be mounted on all
    of their nodes (ReadWriteMany). Defaults to false."""


class Evaluator(_Role):
    """The evaluator, which runs outside the training cluster."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """0 or 1."""
    restart_policy: RestartPolicy = RestartPolicy.EXIT_CODE
    """What to do when the evaluator fails, which never fails the job. ExitCode and OnFailure:
    restart its container in place. Never: replace its pod."""


class PersistentVolumeClaim(Model):
    """A PersistentVolumeClaim in the job's namespace."""

    claim_name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of a PersistentVolumeClaim in the job's namespace."""


class EmptyDir(Model):
    """A volume that exists as long as its pod."""


class Checkpoint(Model):
    """Where checkpoints are stored. Set exactly one of persistentVolumeClaim, uri and emptyDir."""

    persistent_volume_claim: PersistentVolumeClaim | None = None
    """Claim to which the chief writes checkpoints, and from which the evaluator reads them. With
    spec.ps.mountCheckpoint, the parameter servers mount it too."""
    uri: Annotated[str | None, Field(max_length=2048)] = None
    """Object store location of this job alone. TensorFlow supports gs://bucket/path; s3://, az://,
    hdfs:// and viewfs:// require an image with tensorflow-io. The trainer refuses others with exit
    code 64."""
    empty_dir: EmptyDir | None = None
    """Temporary volume of the chief's pod. Checkpoints survive a container restart, but are lost
    with the pod."""
    path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/.+")] = "/checkpoints"
    """Mount path of the volume. Ignored if uri is set. If another job already uses the volume, the
    trainer uses the directory of the job's name in it."""
    resume_from: Annotated[
        str | None, Field(min_length=1, max_length=2048, pattern=r"^(/|[a-z][a-z0-9]*://).+")
    ] = None
    """Directory or checkpoint of an earlier training to start from, as the containers see it. Used
    until this job has saved a checkpoint. Training continues at its step."""


class RunPolicy(Model):
    """Suspension, restarts, deadlines and cleanup of the job."""

    suspend: bool = False
    """Stop the job and delete its pods; its checkpoints are kept. When set back to false, training
    resumes from the newest one."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000), INTEGRAL] = 3
    """Number of restarts after failures before the job fails. Restarts caused by disruptions, such
    as evictions, do not count."""
    active_deadline_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), INTEGRAL] = None
    """Fail the job if its chief has not succeeded within this time. Time spent suspended or waiting
    in a queue of Kueue does not count. evaluatorGraceSeconds limits the last evaluation."""
    startup_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1), INTEGRAL] = 600
    """Fail the job if it is not running within this time after its start, or after it is resumed,
    as long as it has never run; the message names the pod that is not ready. The time that a gang
    waits for its nodes does not count."""
    recovery_deadline_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), INTEGRAL] = None
    """Fail the job if training is interrupted and not running again within this time. If unset,
    there is no limit."""
    stall_timeout_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), INTEGRAL] = None
    """Restart the chief (counts toward backoffLimit) if no step completes for this long."""
    # No default, as for every new field of a spec: stored in each job, it would make the version
    # before reject them all after a rollback.
    stop_on_repeated_failure: bool | None = None
    """Fail the job when the same exception occurs three times in a row at the same step.
    Defaults to true."""
    evaluator_grace_seconds: Annotated[int, Field(ge=0, le=2**31 - 1), INTEGRAL] = 120
    """How long the evaluator can take for the last checkpoint after the chief has succeeded."""
    ttl_seconds_after_finished: Annotated[int | None, Field(ge=0, le=2**31 - 1), INTEGRAL] = None
    """Delete the job this long after it has finished. If unset, it is kept."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """Which pods to delete when the job finishes: Running, All or None."""
    managed_by: Annotated[str, Field(min_length=1, max_length=63)] = keys.MANAGED_BY
    """Name of the controller that manages this job. This operator ignores jobs with any other value
    than the default. For MultiKueue, set spec.managedBy instead."""


class Spec(Model):
    """Desired state of the job: strategy, pods, checkpoints and run policy."""

    strategy: Strategy = Strategy.PARAMETER_SERVER
    """TensorFlow distribution strategy."""
    template: PodTemplate | None = None
    """Pod template shared by all roles. The container that trains must be named tensorflow."""
    chief: Chief = Chief()
    """The coordinator. There is always exactly one, so this can be omitted."""
    worker: Worker | None = None
    """Workers. Required by ParameterServer and MultiWorkerMirrored, not allowed with Mirrored."""
    ps: ParameterServer | None = None
    """Parameter servers. Required by ParameterServer, not allowed with other strategies."""
    evaluator: Evaluator | None = None
    """Evaluates checkpoints while the job trains. Optional, at most one."""
    checkpoint: Checkpoint | None = None
    """Where checkpoints are stored. If unset, training starts from step 0 after each restart."""
    scheduling: Scheduling | None = None
    """How the pods get their nodes: all at once, by which queue, close together or apart."""
    network: Network | None = None
    """Who can connect to the pods."""
    disruption: Disruption | None = None
    """Which pods may be evicted, as by a node drain."""
    run_policy: RunPolicy = RunPolicy()
    """Suspension, restarts, deadlines and cleanup of the job."""
    managed_by: Annotated[str | None, Field(min_length=1, max_length=63)] = None
    """Name of the controller that manages this job. With kueue.x-k8s.io/multikueue, Kueue gives the
    job to another cluster and copies its status back. If unset or tftraining.dev/operator, this
    operator runs the job; it ignores jobs with any other value."""

    @property
    def other_manager(self) -> tuple[str, str] | None:
        """Field and value that leave the job to a controller that is not this operator."""
        return other_manager(self.managed_by, self.run_policy.managed_by)

    def replicas(self, role: keys.Role) -> int:
        """Return how many pods of `role` this spec asks for."""
        given = getattr(self, role)
        return given.replicas if given is not None else 0

    def role(self, role: keys.Role) -> _Role | None:
        """Return the fields that all roles share, None for a role that is not asked for."""
        given: _Role | None = getattr(self, role)
        return given


def other_manager(managed_by: str | None, of_policy: str | None) -> tuple[str, str] | None:
    """Return the one of spec.managedBy and spec.runPolicy.managedBy that names another controller.

    With its path; None for a job of this operator's, here or by MultiKueue.
    """
    if managed_by not in (None, keys.MANAGED_BY, keys.MULTIKUEUE):
        return "spec.managedBy", managed_by
    if of_policy not in (None, keys.MANAGED_BY):
        return "spec.runPolicy.managedBy", of_policy
    return None


class JobAnnotations(Model):
    """The annotations of a job that the operator reads."""

    model_config = ConfigDict(extra="ignore")

    prebuilt_workload: str | None = Field(default=None, alias=keys.PREBUILT_WORKLOAD)


class ObjectMeta(Model):
    """The part of metadata that the operator reads."""

    model_config = ConfigDict(extra="ignore")

    name: str
    namespace: str
    uid: str
    generation: int = 1
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: JobAnnotations = Field(default_factory=JobAnnotations)


def parse_spec(raw: dict[str, Any]) -> Spec:
    """Parse a spec as strictly as the API server does. Raises pydantic.ValidationError."""
    # JSON mode: strict, yet a string may be an enum, as it is in JSON.
    return Spec.model_validate_json(json.dumps(raw), by_alias=True, by_name=False)
