"""The status of a TFTrainingJob, as it is stored.

Field docstrings become descriptions in the CRD. New fields belong to Status itself, or to an object
that is new as well: the version before refuses a status whose objects have fields that it does not
know, but ignores unknown fields of Status (tests/unit/api/test_status_fields.py).
"""

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
from tftraining_operator.api.scheduling import Gang

MAX_CONDITIONS = 16
MAX_WORKERS = 1000

RENAMED = {"awayWorkers": "unavailableWorkers", "leftOutWorkers": "excludedWorkers"}
"""Fields by the names that earlier versions stored them under."""

Index = Annotated[int, Field(ge=0, le=MAX_WORKERS - 1)]


class ConditionStatus(StrEnum):
    """Status of a condition, as in all of Kubernetes."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of the job's state."""

    type: Annotated[str, Field(max_length=63)]
    """Type of the condition."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=256)]
    """Machine-readable reason for the status, in CamelCase."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """Human-readable details."""
    last_transition_time: Time
    """Time at which status last changed."""
    observed_generation: Natural
    """metadata.generation on which this condition is based."""


class Replicas(Model):
    """Ready and desired pods of each role, as text for printer columns."""

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
    """Number of pods that the spec requests."""
    ready: Count
    """Number of pods that are ready or have succeeded."""
    active: Count
    """Number of pods that are pending or running, without those that are deleted at the end."""
    succeeded: Count
    """Number of pods that have succeeded."""
    failed: Count
    """Number of failed pods that have not been replaced."""


class Metric(Model):
    """A named value."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the value, such as loss or accuracy."""
    value: Annotated[str, Field(max_length=64)]
    """Decimal number as text."""


class Progress(Model):
    """Training progress, as reported by the chief."""

    step: Natural
    """Number of completed training steps."""
    total_steps: Natural | None = None
    """Total number of training steps."""
    percent: Natural | None = None
    """Completed part of totalSteps, from 0 to 100."""
    percent_text: Annotated[str | None, Field(max_length=8)] = None
    """percent with a percent sign, for the printer column."""
    eta_seconds: Natural | None = None
    """Estimated seconds until training completes, at the current rate."""
    eta_text: Annotated[str | None, Field(max_length=16)] = None
    """etaSeconds in its two largest units, such as 2h5m, for the printer column."""
    steps_per_second: Annotated[Decimal | None, Field(max_length=32)] = None
    """Recent training steps per second, as text."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Training metrics of the most recent steps."""
    loss: Annotated[str | None, Field(max_length=64)] = None
    """The metric named loss, for the printer column."""
    updated_at: Time
    """Time at which a new step was last recorded here."""
    last_step_time: Time | None = None
    """Time at which the most recent step completed."""
    resumed_step: Natural | None = None
    """Step of the checkpoint that the current chief resumed from. Unset if it started at
    step 0."""


class CheckpointStatus(Model):
    """The most recent complete checkpoint."""

    step: Natural
    """Training step at which it was saved."""
    time: str
    """Time at which it was saved."""
    path: Annotated[str, Field(max_length=4096)]
    """Path of the checkpoint, as the trainer sees it."""


class ModelStatus(Model):
    """The trained model, as the chief exported it at the end of training."""

    step: Natural
    """Training step of the exported weights."""
    path: Annotated[str, Field(max_length=1024)]
    """Folder that holds the model, as the trainer sees it. TensorFlow Serving takes its parent."""
    formats: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=8)] = []
    """Formats in the folder: saved_model, keras, or custom for what the task's own export wrote."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Metrics that training ended with."""


class BestCheckpoint(Model):
    """The best checkpoint, which is kept if the trainer's --keep-best is set."""

    step: Natural
    """Training step of the checkpoint."""
    metric: Metric
    """The metric by which it is the best."""
    path: Annotated[str, Field(max_length=1024)]
    """Path of the checkpoint, as the trainer sees it."""
    export_path: Annotated[str | None, Field(max_length=1024)] = None
    """Folder that holds its exported model. Unset while the job trains."""


class Evaluation(Model):
    """The most recent evaluation."""

    step: Natural
    """Training step of the checkpoint that was evaluated."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = []
    """Evaluation metrics."""
    final: bool = False
    """Whether the evaluated checkpoint is the last one."""


class Failure(Model):
    """Why a pod failed or cannot start."""

    role: RoleName
    """Role of the pod."""
    index: Index
    """Index of the pod within its role."""
    pod: Annotated[str, Field(max_length=63)]
    """Name of the pod."""
    node: Annotated[str | None, Field(max_length=253)] = None
    """Node to which the pod was scheduled, if any."""
    reason: Annotated[str, Field(max_length=63)]
    """Machine-readable reason, such as OOMKilled, Evicted, ImagePullBackOff or ExitCode."""
    exit_code: int | None = None
    """Exit code of the container, if it ran."""
    message: Annotated[str, Field(max_length=2048)] = ""
    """Details: the end of the container's log, or the message of the API server or the kubelet."""
    time: Time
    """Time at which the failure was observed."""


class UnavailableWorker(Model):
    """A worker that is not ready."""

    index: Index
    """Index of the worker."""
    since: Time
    """Time since which it has been unavailable."""


class Disruption(Model):
    """A pod that was evicted, preempted or drained."""

    role: RoleName
    """Role of the pod."""
    pod: Annotated[str, Field(max_length=63)]
    """Name of the pod."""
    reason: Annotated[str, Field(max_length=63)]
    """Reason given by the cluster, such as EvictionByEvictionAPI."""
    time: Time
    """Time at which the disruption was announced."""


class Restart(Model):
    """The most recent restart of the chief, with what decides about the next one."""

    reason: Annotated[str, Field(max_length=256)]
    """Machine-readable reason why the attempt ended."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """Human-readable details."""
    time: Time
    """Time at which the restart was decided."""
    counted: bool
    """Whether the restart counts toward backoffLimit."""
    not_before: DueTime | None = None
    """Time before which the next chief is not created."""
    failure_reason: Annotated[str | None, Field(max_length=63)] = None
    """Reason of the failure that caused it, such as OOMKilled or ExitCode."""
    failure_text: Annotated[str | None, Field(max_length=256)] = None
    """First line of that failure's message."""
    step: Natural | None = None
    """Most recent training step known at that time."""
    checkpoint_step: Natural | None = None
    """Step of the most recent checkpoint at that time."""
    repeats: Count = 1
    """How many times in a row the same failure occurred at the same step."""


class PodReplacement(Model):
    """How often a pod was replaced in a row. Each further replacement waits longer."""

    pod: Annotated[str, Field(max_length=63)]
    """Name of the pod."""
    uid: Annotated[str, Field(max_length=63)]
    """UID of the pod that was, or is about to be, replaced."""
    count: Count
    """Number of replacements in a row."""
    time: Time
    """Time at which the pod was last replaced."""


class GangStatus(Model):
    """The pods that training needs, which get their nodes all at once."""

    scheduler: Gang
    """Scheduler of the pods: InTree, PodGroup or Volcano."""
    group: Annotated[str, Field(max_length=253)]
    """Name of the scheduler's PodGroup."""
    attempt: Count
    """Attempt for which the gang was formed."""
    members: Count
    """Number of pods in the gang."""
    waiting_since: Time
    """Time since which the gang has waited, or waited, for its nodes."""
    scheduled_time: Time | None = None
    """Time at which all of its pods had a node."""


class Eviction(Model):
    """Why Kueue took the job's quota back."""

    reason: Annotated[str, Field(max_length=63)]
    """Reason that Kueue gave, such as Preempted or ClusterQueueStopped."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """Kueue's own words, such as which job it makes room for."""
    time: Time
    """Time at which the eviction was observed."""


class QueueStatus(Model):
    """The job's place in a queue of Kueue. Its pods exist only while it is admitted."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the LocalQueue."""
    workload: Annotated[str, Field(max_length=63)]
    """Name of the job's Workload object."""
    waiting_since: Time | None = None
    """Time since which the job has waited, or waited, for its quota. Unset while suspended."""
    admitted_time: Time | None = None
    """Time at which Kueue admitted the job. Unset while it waits."""
    workers: Annotated[int | None, Field(ge=0, le=MAX_WORKERS)] = None
    """Number of workers that have quota; others are queued. Unset while the job waits."""
    wait_seconds: Natural = 0
    """Seconds that the job has waited in queues before its admissions, all of them together."""
    evictions: Count = 0
    """Number of times that Kueue evicted the job, by preemption or for another reason."""
    preemptions: Count = 0
    """Number of these evictions that were preemptions."""
    last_eviction: Eviction | None = None
    """The most recent eviction, of the job or of workers that were added while it trained."""


MAX_POD_METADATA = 32
MAX_POD_METADATA_VALUE = 1024

_PodMetadata = Annotated[
    dict[str, Annotated[str, Field(max_length=MAX_POD_METADATA_VALUE)]],
    Field(max_length=MAX_POD_METADATA),
]


class StoredMetadata(Model):
    """Labels and annotations of pods."""

    labels: _PodMetadata = {}
    """Default labels."""
    annotations: _PodMetadata = {}
    """Default annotations."""


MAX_REPLACEMENTS = 256


class Status(Model):
    """Observed state of the job. Conditions are authoritative; state is a summary for display."""

    observed_generation: Natural | None = None
    """metadata.generation on which this status is based."""
    state: Annotated[str | None, Field(max_length=32)] = None
    """Summary of the conditions in one word."""
    message: Annotated[str | None, Field(max_length=1024)] = None
    """Human-readable explanation of state."""
    conditions: Annotated[
        list[Condition],
        Field(max_length=MAX_CONDITIONS, json_schema_extra=map_by("type")),
        AfterValidator(unique("type")),
    ] = []
    """Conditions of the job."""
    start_time: Time | None = None
    """Time at which the job was started or last resumed. Unset while suspended."""
    completion_time: Time | None = None
    """Time at which the job finished."""
    chief_completion_time: Time | None = None
    """Time at which the chief succeeded. evaluatorGraceSeconds start here."""
    active_seconds: Natural = 0
    """Seconds for which the job was active before it was last suspended or queued. They count
    toward activeDeadlineSeconds."""
    first_running_time: Time | None = None
    """Time at which training first ran. startupDeadlineSeconds applies until then."""
    interrupted_time: Time | None = None
    """Time at which training was interrupted. Unset while it runs."""
    trainer_image: Annotated[str | None, Field(max_length=1024)] = None
    """Default trainer image at the time the job was started, used for all its pods."""
    pod_metadata: StoredMetadata | None = None
    """Default labels and annotations at the time the job was started, given to all its pods."""
    attempt: Count = 0
    """Number of the current attempt, starting at 0. Each new chief begins a new attempt."""
    chief_uid: Annotated[str | None, Field(max_length=63)] = None
    """UID of the chief pod of the current attempt."""
    restarts: Count = 0
    """Number of restarts that count toward backoffLimit."""
    gang: GangStatus | None = None
    """The gang of the current cluster. Unset if the pods are scheduled one by one."""
    queue: QueueStatus | None = None
    """The job's place in a queue of Kueue. Unset if the job is in none."""
    last_restart: Restart | None = None
    """The most recent restart of the chief."""
    failed_starts: Count = 0
    """Number of attempts in a row that ended before training ran."""
    replacements: Annotated[
        list[PodReplacement],
        Field(max_length=MAX_REPLACEMENTS, json_schema_extra=map_by("pod")),
        AfterValidator(unique("pod")),
    ] = []
    """Recently replaced pods, for the backoff of their next replacement."""
    replicas: Replicas | None = None
    """Ready and desired pods of each role, as text."""
    roles: Annotated[
        list[RoleStatus],
        Field(max_length=4, json_schema_extra=map_by("name")),
        AfterValidator(unique("name")),
    ] = []
    """Pod counts by role."""
    cluster_workers: Annotated[int | None, Field(ge=0, le=MAX_WORKERS)] = None
    """Number of workers that the current cluster was formed with, including excluded ones."""
    excluded_workers: Annotated[list[Index], Field(max_length=MAX_WORKERS)] = []
    """Indexes of the workers that are excluded from the current cluster."""
    unavailable_workers: Annotated[
        list[UnavailableWorker],
        Field(max_length=MAX_WORKERS, json_schema_extra=map_by("index")),
        AfterValidator(unique("index")),
    ] = []
    """Workers that are not ready, if spec.worker.minReplicas is set."""
    worker_replicas: Count | None = None
    """Number of worker pods, for the scale subresource."""
    worker_selector: Annotated[str | None, Field(max_length=1024)] = None
    """Label selector of the worker pods, for the scale subresource."""
    bucket: Count | None = None
    """Number of the bucket to which the job belongs, from a hash of its namespace and name. Each
    shard of the operator selects its jobs by it."""
    progress_attempt: Count | None = None
    """Attempt of the chief that reported progress."""
    progress: Progress | None = None
    """Training progress, as reported by the chief."""
    repeated_examples: Natural | None = None
    """Number of examples that the model was trained on once more because a worker was lost. Unset
    if there are none."""
    last_checkpoint: CheckpointStatus | None = None
    """The most recent complete checkpoint."""
    model: ModelStatus | None = None
    """The trained model, as the chief exported it at the end of training."""
    best: BestCheckpoint | None = None
    """The best checkpoint, which is kept if the trainer's --keep-best is set."""
    evaluation: Evaluation | None = None
    """The most recent evaluation."""
    last_failure: Failure | None = None
    """The most recent failure."""
    first_failure: Failure | None = None
    """The first failure since the job was created."""
    last_disruption: Disruption | None = None
    """The most recent disruption. Restarts that it causes do not count toward backoffLimit."""

    def as_dict(self) -> dict[str, Any]:
        """Return the status as it is stored: plain JSON data, nothing for None.

        Empty lists stay: the defaults of an older CRD would bring them back, as a change for ever.
        """
        dumped: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
