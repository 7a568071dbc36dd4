"""The TFTrainingJob as models: the single source of the CRD, its defaults and `kubectl explain`.

Field docstrings become descriptions in the CRD. Parsing is strict, as the API server is: what one
of them refuses, the other refuses as well. Pod templates are typed only where we read them; all
else in them is kept as the user wrote it.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from tftraining_operator.api import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic.config import JsonDict

MAX_REPLICAS = 1000
MAX_CONTAINERS = 32
MAX_ITEMS = 256


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, given: object) -> object:
        # As the API server does with every field that it knows.
        if not isinstance(given, dict):
            return given
        known = {field.alias or name for name, field in cls.model_fields.items()}
        return {k: v for k, v in given.items() if v is not None or k not in known}


class _Shell(_Model):
    """Typed where we read, open everywhere else."""

    model_config = ConfigDict(extra="allow")


def _map_by(key: str) -> JsonDict:
    """Mark a list whose items are told apart, and merged by server-side apply, by `key`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _unique(key: str) -> Callable[[list[Any]], list[Any]]:
    def check(items: list[Any]) -> list[Any]:
        seen = [getattr(item, key) for item in items]
        twice = sorted({name for name in seen if seen.count(name) > 1})
        if twice:
            raise ValueError(f"each {key} may stand once; given again: {', '.join(twice)}")
        return items

    return check


def _without_nulls(given: object) -> object:
    return {k: v for k, v in given.items() if v is not None} if isinstance(given, dict) else given


def _integral(given: object) -> object:
    return int(given) if isinstance(given, float) and given.is_integer() else given


StringMap = Annotated[dict[str, str], BeforeValidator(_without_nulls)]
"""A map of strings; a key whose value is null is absent, as the API server has it."""

_INTEGRAL = BeforeValidator(_integral)
"""3.0 is 3, as in JSON. Not so where a CEL rule reads the field: there 3.0 has the wrong type."""


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


class EnvVar(_Shell):
    """One environment variable of a container."""

    name: str


class Container(_Shell):
    """One container of a pod template."""

    name: Annotated[str, Field(max_length=63)]
    image: str | None = None
    env: Annotated[list[EnvVar], Field(max_length=MAX_ITEMS)] | None = None


class TemplateMetadata(_Shell):
    """Labels and annotations of the pods."""

    labels: StringMap | None = None
    annotations: StringMap | None = None


class PodSpec(_Shell):
    """The pods' spec: any field of a Kubernetes PodSpec."""

    containers: (
        Annotated[
            list[Container],
            Field(max_length=MAX_CONTAINERS, json_schema_extra=_map_by("name")),
            AfterValidator(_unique("name")),
        ]
        | None
    ) = None


class PodTemplate(_Shell):
    """A Kubernetes PodTemplateSpec; the container that trains is named `tensorflow`."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations for the pods."""
    spec: PodSpec | None = None
    """Any field of a Kubernetes PodSpec."""

    def as_dict(self) -> dict[str, Any]:
        """Return the template as the user wrote it, as plain JSON data."""
        dumped: dict[str, Any] = self.model_dump(by_alias=True, exclude_unset=True)
        return dumped


class _Role(_Model):
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


class ParameterServer(_Role):
    """Parameter servers hold the model's variables."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """Number of parameter servers."""


class Evaluator(_Role):
    """The evaluator follows the checkpoints, outside the training cluster."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """0 or 1."""


class PersistentVolumeClaim(_Model):
    """A claim in the job's namespace."""

    claim_name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of a PersistentVolumeClaim in the job's own namespace."""


class EmptyDir(_Model):
    """A volume that lives as long as its pod."""


class Checkpoint(_Model):
    """Where checkpoints are kept: exactly one of persistentVolumeClaim, uri and emptyDir."""

    persistent_volume_claim: PersistentVolumeClaim | None = None
    """A claim that the chief writes and the evaluator reads."""
    uri: Annotated[
        str | None, Field(max_length=2048, pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://.+$")
    ] = None
    """Object storage that TensorFlow can write, such as gs://bucket/path."""
    empty_dir: EmptyDir | None = None
    """Survives a restart of a container, not the loss of the chief's pod."""
    path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/.+")] = "/checkpoints"
    """Where the volume is mounted; ignored with uri."""


class RunPolicy(_Model):
    """When the job is restarted, stopped, cleaned up and deleted."""

    suspend: bool = False
    """While true the job has no pods; its checkpoint stays."""
    backoff_limit: Annotated[int, Field(ge=0, le=1000), _INTEGRAL] = 3
    """Counted restarts before the job is Failed."""
    active_deadline_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), _INTEGRAL] = None
    """Seconds from start to Failed if not finished by then; paused while suspended."""
    startup_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1), _INTEGRAL] = 600
    """Seconds within which all pods must be ready once; then Failed with the culprit named."""
    stall_timeout_seconds: Annotated[int | None, Field(ge=1, le=2**31 - 1), _INTEGRAL] = None
    """Seconds without a new step after which the chief is restarted, counted."""
    evaluator_grace_seconds: Annotated[int, Field(ge=0, le=2**31 - 1), _INTEGRAL] = 120
    """Seconds the evaluator may take for the last checkpoint after the chief succeeded."""
    ttl_seconds_after_finished: Annotated[int | None, Field(ge=0, le=2**31 - 1), _INTEGRAL] = None
    """Seconds after the end until the job is deleted; kept for ever if not set."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """Which pods are deleted at the end: Running, All or None."""
    managed_by: Annotated[str, Field(min_length=1, max_length=63)] = keys.MANAGED_BY
    """Which controller takes care of this job; another value than the default stops ours."""


class Spec(_Model):
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


class ConditionStatus(StrEnum):
    """Kubernetes' three-valued truth."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(_Model):
    """One aspect of the job's state, as in all of Kubernetes."""

    type: Annotated[str, Field(max_length=63)]
    """Name of the condition."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=256)]
    """One CamelCase word for machines."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """One sentence for people."""
    last_transition_time: str
    """When status last changed, RFC 3339 in UTC."""
    observed_generation: int
    """metadata.generation that this was computed from."""


class Replicas(_Model):
    """Ready and desired pods by role, as text for printer columns."""

    chief: str | None = None
    """Ready and desired chiefs, such as 1/1."""
    worker: str | None = None
    """Ready and desired workers, such as 3/4."""
    ps: str | None = None
    """Ready and desired parameter servers."""
    evaluator: str | None = None
    """Ready and desired evaluators."""


class RoleStatus(_Model):
    """Pod counts of one role."""

    name: Annotated[str, Field(max_length=63)]
    """Role: chief, worker, ps or evaluator."""
    desired: int
    """Pods that the spec asks for."""
    ready: int
    """Pods that are ready; succeeded pods count, as their work is done."""
    active: int
    """Pods that are pending or running."""
    succeeded: int
    """Pods that ended well."""
    failed: int
    """Pods that failed and are not replaced yet."""


class Metric(_Model):
    """One named value, as text."""

    name: Annotated[str, Field(max_length=63)]
    """Name such as loss or accuracy."""
    value: Annotated[str, Field(max_length=64)]
    """Decimal number as text."""


class Progress(_Model):
    """How far the training is, as its chief reports it."""

    step: int
    """Training steps done."""
    total_steps: int | None = None
    """Training steps in all."""
    percent: int | None = None
    """step of totalSteps, 0 to 100."""
    percent_text: Annotated[str | None, Field(max_length=8)] = None
    """percent with its sign, for the printer column."""
    eta_seconds: int | None = None
    """Seconds to the end at the present rate."""
    eta_text: Annotated[str | None, Field(max_length=16)] = None
    """etaSeconds in its two largest units, for the printer column."""
    steps_per_second: Annotated[str | None, Field(max_length=32)] = None
    """Training rate, as text."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Training metrics of the last steps."""
    loss: Annotated[str | None, Field(max_length=64)] = None
    """The metric named loss, for the printer column."""
    updated_at: str
    """When step last changed, RFC 3339 in UTC."""


class CheckpointStatus(_Model):
    """The newest complete checkpoint."""

    step: int
    """Training step at which it was written."""
    time: str
    """When it was written, RFC 3339 in UTC."""
    path: Annotated[str, Field(max_length=4096)]
    """Its path as the trainer sees it."""


class Evaluation(_Model):
    """The newest evaluation."""

    step: int
    """Training step of the checkpoint that was evaluated."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Metrics on the held-out data."""
    final: bool = False
    """Whether this is the evaluation of the last checkpoint."""


class Failure(_Model):
    """Why a pod failed or cannot start."""

    role: Annotated[str, Field(max_length=63)]
    """Role of the pod."""
    index: int
    """Index of the pod within its role."""
    pod: Annotated[str, Field(max_length=63)]
    """Name of the pod."""
    node: Annotated[str | None, Field(max_length=253)] = None
    """Node it ran on, if it was scheduled."""
    reason: Annotated[str, Field(max_length=63)]
    """OOMKilled, Evicted, ImagePullBackOff, Unschedulable, Refused, ExitCode and the like."""
    exit_code: int | None = None
    """Exit code of the container, if it ran."""
    message: Annotated[str, Field(max_length=2048)] = ""
    """What to know: the last lines of the log or the cluster's own words, bounded."""
    time: str
    """When it was seen, RFC 3339 in UTC."""


class Status(_Model):
    """What has become of the job. Conditions are the truth; `state` is for display."""

    observed_generation: int | None = None
    """metadata.generation that this status was computed from."""
    state: Annotated[str | None, Field(max_length=32)] = None
    """One word for people, derived from the conditions."""
    message: Annotated[str | None, Field(max_length=1024)] = None
    """The sentence that explains `state`."""
    conditions: Annotated[
        list[Condition], Field(max_length=16, json_schema_extra=_map_by("type"))
    ] = []
    """Conditions by type."""
    start_time: str | None = None
    """When the job was accepted or last resumed, RFC 3339 in UTC."""
    completion_time: str | None = None
    """When the job ended, RFC 3339 in UTC."""
    chief_completion_time: str | None = None
    """When the chief succeeded; the evaluator's grace runs from here."""
    active_seconds: int = 0
    """Seconds of activity before the last suspension, for activeDeadlineSeconds."""
    attempt: int = 0
    """Attempt of the chief, from 0."""
    restarts: int = 0
    """Restarts that count against backoffLimit."""
    replicas: Replicas | None = None
    """Ready and desired pods by role, as text."""
    roles: Annotated[list[RoleStatus], Field(max_length=4, json_schema_extra=_map_by("name"))] = []
    """Pod counts by role."""
    worker_replicas: int | None = None
    """Workers that exist, for the scale subresource."""
    worker_selector: Annotated[str | None, Field(max_length=1024)] = None
    """Label selector of the workers, for the scale subresource."""
    progress: Progress | None = None
    """How far the training is."""
    last_checkpoint: CheckpointStatus | None = None
    """The newest complete checkpoint."""
    evaluation: Evaluation | None = None
    """The newest evaluation."""
    last_failure: Failure | None = None
    """The newest failure."""
    first_failure: Failure | None = None
    """The first failure since the job was created."""

    def as_dict(self) -> dict[str, Any]:
        """Return the status as it is stored: plain JSON data, nothing for None."""
        dumped: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped


class ObjectMeta(_Model):
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


def parse_status(raw: dict[str, Any] | None) -> Status:
    """Parse a stored status; fields of other operator versions are ignored."""
    known = {f.alias or n for n, f in Status.model_fields.items()}
    kept = {k: v for k, v in (raw or {}).items() if k in known}
    return Status.model_validate_json(json.dumps(kept))
