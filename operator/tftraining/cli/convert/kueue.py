"""Queues of Kueue, which jobs of both kinds name by the same labels.

Kueue takes care of TFJobs itself; for a TFTrainingJob, the operator makes the Workload.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap
from tftraining_operator.api.keys import LABEL_QUEUE
from tftraining_operator.core.job import InvalidJobError, Job
from tftraining_operator.core.queueing import queue_name

from tftraining.cli.convert.findings import Finding, Level, RefusedError

_Map = Mapping[str, Any]

_MAX_TIME = "kueue.x-k8s.io/max-exec-time-seconds"


def labels(raw: _Map) -> _Map:
    """Return the labels of a job; none if they are no object."""
    found = (raw.get("metadata") or {}).get("labels")
    return found if isinstance(found, Mapping) else {}


def has_queue(raw: _Map) -> bool:
    """Tell whether a job's label names a queue."""
    return bool(labels(raw).get(LABEL_QUEUE))


def from_tfjob(raw: _Map) -> Iterator[Finding]:
    """Yield what Kueue's labels mean for a TFTrainingJob."""
    given = labels(raw)
    if has_queue(raw):
        yield Finding(
            Level.DIFFERS,
            f"metadata.labels[{LABEL_QUEUE}]",
            "kept: the operator makes the Workload itself, with Kueue 0.15 or newer and its chart's"
            " value scheduling.kueue (docs/guide/kueue.md). A job that Kueue evicts saves a"
            " checkpoint and resumes from it; with worker.minReplicas it can be admitted with fewer"
            " workers",
        )
    if _MAX_TIME in given:
        yield Finding(
            Level.LOST,
            f"metadata.labels[{_MAX_TIME}]",
            "has no effect here: set spec.runPolicy.activeDeadlineSeconds",
        )


def set_queue(metadata: Any, job: Job) -> None:  # noqa: ANN401 - a map of ruamel
    """Add the label of the queue that spec.scheduling names. Raises RefusedError."""
    try:
        name = queue_name(job)
    except InvalidJobError as error:
        raise RefusedError("spec.scheduling.queue", str(error)) from error
    if name is None:
        return
    if metadata.get("labels") is None:
        metadata["labels"] = CommentedMap()
    metadata["labels"][LABEL_QUEUE] = name


def to_tfjob(raw: _Map) -> Iterator[Finding]:
    """Yield what Kueue's labels mean for a TFJob."""
    if not has_queue(raw):
        return
    yield Finding(
        Level.DIFFERS,
        f"metadata.labels[{LABEL_QUEUE}]",
        "Kueue itself takes care of TFJobs, if kubeflow.org/tfjob is among its"
        " integrations.frameworks. It suspends a job that it evicts and resumes it when it admits"
        " it, also one that a user has suspended, and admits it with all of its workers only",
    )
