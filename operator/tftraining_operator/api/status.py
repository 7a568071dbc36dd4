"""The status of a TFTrainingJob, as the CRD stores it. Conditions are the truth in it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tftraining_operator.api.base import (
    Count,
    Decimal,
    DueTime,
    Model,
    Natural,
    RoleName,
    Time,
    map_by,
    unique,
)

MAX_CONDITIONS = 16
MAX_WORKERS = 1000

RENAMED = {"awayWorkers": "unavailableWorkers", "leftOutWorkers": "excludedWorkers"}
"""Fields by the names that earlier versions stored them under."""

Index = Annotated[int, Field(ge=0, le=MAX_WORKERS - 1)]


class ConditionStatus(StrEnum):
    """Kubernetes' three-valued truth."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of the job's state, as in all of Kubernetes."""

    type: Annotated[str, Field(max_length=63)]
    """Name of the condition."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=256)]
    """One CamelCase word for machines."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """One sentence for people."""
    last_transition_time: Time
    """When status last changed, RFC 3339 in UTC."""
    observed_generation: Natural
    """metadata.generation that this was computed from."""


class Replicas(Model):
    """Ready and desired pods by role, as text for printer columns."""

    chief: str | None = None
    """Ready and desired chiefs, such as 1/1."""
    worker: str | None = None
    """Ready and desired workers, such as 3/4."""
    ps: str | None = None
    """Ready and desired parameter servers."""
    evaluator: str | None = None
    """Ready and desired evaluators."""


class RoleStatus(Model):
    """Pod counts of one role."""

    name: Annotated[str, Field(max_length=63)]
    """Role: chief, worker, ps or evaluator."""
    desired: Count
    """Pods that the spec asks for."""
    ready: Count
    """Pods that are ready; succeeded pods count, as their work is done."""
    active: Count
    """Pods that are pending or running."""
    succeeded: Count
    """Pods that ended well."""
    failed: Count
    """Pods that failed and are not replaced yet."""


class Metric(Model):
    """One named value, as text."""

    name: Annotated[str, Field(max_length=63)]
    """Name such as loss or accuracy."""
    value: Annotated[str, Field(max_length=64)]
    """Decimal number as text."""


class Progress(Model):
    """How far the training is, as its chief reports it."""

    step: Natural
    """Training steps done."""
    total_steps: Natural | None = None
    """Training steps in all."""
    percent: Natural | None = None
    """step of totalSteps, 0 to 100."""
    percent_text: Annotated[str | None, Field(max_length=8)] = None
    """percent with its sign, for the printer column."""
    eta_seconds: Natural | None = None
    """Seconds to the end at the present rate."""
    eta_text: Annotated[str | None, Field(max_length=16)] = None
    """etaSeconds in its two largest units, for the printer column."""
    steps_per_second: Annotated[Decimal | None, Field(max_length=32)] = None
    """Training rate, as text."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Training metrics of the last steps."""
    loss: Annotated[str | None, Field(max_length=64)] = None
    """The metric named loss, for the printer column."""
    updated_at: Time
    """When a new step was last written here, RFC 3339 in UTC."""
    last_step_time: Time | None = None
    """When the newest step was made, RFC 3339 in UTC."""
    resumed_step: Natural | None = None
    """Step of the checkpoint that the present chief resumed from; not set if it began anew."""
    attempt: Count | None = None
    """Attempt whose chief reported this."""


class CheckpointStatus(Model):
    """The newest complete checkpoint."""

    step: Natural
    """Training step at which it was written."""
    time: str
    """When it was written, RFC 3339 in UTC."""
    path: Annotated[str, Field(max_length=4096)]
    """Its path as the trainer sees it."""


class Evaluation(Model):
    """The newest evaluation."""

    step: Natural
    """Training step of the checkpoint that was evaluated."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Metrics on the held-out data."""
    final: bool = False
    """Whether this is the evaluation of the last checkpoint."""


class Failure(Model):
    """Why a pod failed or cannot start."""

    role: RoleName
    """Role of the pod."""
    index: Index
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
    time: Time
    """When it was seen, RFC 3339 in UTC."""


class UnavailableWorker(Model):
    """A worker of the cluster that is not ready."""

    index: Index
    """Index of the worker."""
    since: Time
    """Since when, RFC 3339 in UTC."""


class Disruption(Model):
    """A pod that the cluster took away: drained, preempted or evicted."""

    role: RoleName
    """Role of the pod."""
    pod: Annotated[str, Field(max_length=63)]
    """Name of the pod."""
    reason: Annotated[str, Field(max_length=63)]
    """The cluster's own word, such as EvictionByEvictionAPI."""
    time: Time
    """When it was announced, RFC 3339 in UTC."""


class Restart(Model):
    """The newest restart of the chief, and what the next one has to know of it."""

    reason: Annotated[str, Field(max_length=256)]
    """Why the attempt ended."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """What happened, in one sentence."""
    time: Time
    """When it was decided, RFC 3339 in UTC."""
    counted: bool
    """Whether it counts against backoffLimit."""
    not_before: DueTime | None = None
    """The next chief is not created before this time, RFC 3339 in UTC."""
    failure_reason: Annotated[str | None, Field(max_length=63)] = None
    """Reason of the failure that caused it, such as OOMKilled or ExitCode."""
    failure_text: Annotated[str | None, Field(max_length=256)] = None
    """First line of that failure's message."""
    step: Natural | None = None
    """Newest training step known at that time."""
    checkpoint_step: Natural | None = None
    """Step of the newest checkpoint at that time."""
    repeats: Count = 1
    """How many times in a row the same failure occurred at the same step."""


class PodReplacement(Model):
    """How often a pod was replaced in a row; the next replacement waits longer."""

    pod: Annotated[str, Field(max_length=63)]
    """Name of the pod."""
    uid: Annotated[str, Field(max_length=63)]
    """UID of the pod that was, or is about to be, replaced."""
    count: Count
    """Replacements in a row."""
    time: Time
    """When it was last replaced, RFC 3339 in UTC."""


MAX_REPLACEMENTS = 256


class Status(Model):
    """What has become of the job. Conditions are the truth; `state` is for display."""

    observed_generation: Natural | None = None
    """metadata.generation that this status was computed from."""
    state: Annotated[str | None, Field(max_length=32)] = None
    """One word for people, derived from the conditions."""
    message: Annotated[str | None, Field(max_length=1024)] = None
    """The sentence that explains `state`."""
    conditions: Annotated[
        list[Condition],
        Field(max_length=MAX_CONDITIONS, json_schema_extra=map_by("type")),
        AfterValidator(unique("type")),
    ] = []
    """Conditions by type."""
    start_time: Time | None = None
    """When the job was accepted or last resumed, RFC 3339 in UTC."""
    completion_time: Time | None = None
    """When the job ended, RFC 3339 in UTC."""
    chief_completion_time: Time | None = None
    """When the chief succeeded; the evaluator's grace runs from here."""
    active_seconds: Natural = 0
    """Seconds of activity before the last suspension, for activeDeadlineSeconds."""
    first_running_time: Time | None = None
    """When the training first ran, RFC 3339 in UTC; startupDeadlineSeconds applies until then."""
    interrupted_time: Time | None = None
    """Since when the training does not run though it had run, RFC 3339 in UTC."""
    trainer_image: Annotated[str | None, Field(max_length=1024)] = None
    """The operator's trainer image that the job started with; used for all of its pods."""
    attempt: Count = 0
    """Number of the chief's pod, from 0; every new chief has a higher one."""
    chief_uid: Annotated[str | None, Field(max_length=63)] = None
    """UID of the chief's pod of the present attempt."""
    restarts: Count = 0
    """Restarts that count against backoffLimit."""
    last_restart: Restart | None = None
    """The newest restart of the chief."""
    failed_starts: Count = 0
    """Attempts in a row that ended before the training ran."""
    replacements: Annotated[
        list[PodReplacement],
        Field(max_length=MAX_REPLACEMENTS, json_schema_extra=map_by("pod")),
        AfterValidator(unique("pod")),
    ] = []
    """Pods that were replaced lately, for the backoff of their next replacement."""
    replicas: Replicas | None = None
    """Ready and desired pods by role, as text."""
    roles: Annotated[
        list[RoleStatus],
        Field(max_length=4, json_schema_extra=map_by("name")),
        AfterValidator(unique("name")),
    ] = []
    """Pod counts by role."""
    cluster_workers: Annotated[int | None, Field(ge=0, le=MAX_WORKERS)] = None
    """Number of workers that the present cluster was formed for, excluded ones included."""
    excluded_workers: Annotated[list[Index], Field(max_length=MAX_WORKERS)] = []
    """Indexes of the workers that the present cluster continues without."""
    unavailable_workers: Annotated[
        list[UnavailableWorker],
        Field(max_length=MAX_WORKERS, json_schema_extra=map_by("index")),
        AfterValidator(unique("index")),
    ] = []
    """Workers that are not ready, where spec.worker.minReplicas allows to continue without them."""
    worker_replicas: Count | None = None
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
    last_disruption: Disruption | None = None
    """The newest disruption; a restart that it causes does not count against backoffLimit."""

    def as_dict(self) -> dict[str, Any]:
        """Return the status as it is stored: plain JSON data, nothing for None.

        Empty lists stay: the CRD's defaults would bring them back, as a difference for ever.
        """
        dumped: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
