"""Scales, suspends, resumes, restarts and deletes jobs; each function returns one sentence."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tftraining_operator.api.keys import LABEL_ROLE, ConditionType, Role
from tftraining_operator.core.conditions import is_finished, is_true
from tftraining_operator.core.environment import checkpoint_directory, promised_step
from tftraining_operator.core.job import InvalidJobError, Job, parse_job
from tftraining_operator.core.podtemplate import InvalidTemplateError, template
from tftraining_operator.core.raw_pod import runs_trainer
from tftraining_operator.core.text import counted

from tftraining import recreation
from tftraining.cluster.cluster import Cluster
from tftraining.errors import InputError, NotFoundError


def scale(cluster: Cluster, name: str, workers: int) -> str:
    """Change the number of workers.

    Raises TFTrainingError, such as the CRD's rules in their words.
    """
    job = _training(_unfinished(cluster, name, "its workers cannot be changed"))
    before = job.spec.replicas(Role.WORKER)  # and not how many Kueue has admitted
    if before == workers:
        return f"{name}: has {counted(workers, 'worker')} already"
    cluster.patch_job(name, {"spec": {"worker": {"replicas": workers}}})
    return f"{name}: scaled from {before} to {counted(workers, 'worker')}"


def set_suspend(cluster: Cluster, name: str, *, value: bool) -> str:
    """Suspend or resume a job. Raises TFTrainingError."""
    job = _unfinished(cluster, name)
    if job.spec.run_policy.suspend is value:
        return f"{name}: {'is suspended already' if value else 'is not suspended'}"
    if value:
        _training(job)
    cluster.patch_job(name, {"spec": {"runPolicy": {"suspend": value}}})
    if value:
        return f"{name}: suspending; tftj resume {name} continues it"
    return f"{name}: resuming from its newest checkpoint"


def restart(cluster: Cluster, name: str, *, say: Callable[[str], None] = lambda _text: None) -> str:
    """Restart the chief of a running job, or create an ended one again.

    Raises TFTrainingError; InputError for a job whose training is complete, before it is deleted.
    """
    raw = cluster.job(name)
    job = _parsed(raw)
    if is_finished(job.status):
        if (directory := _completed_directory(job)) is not None:
            raise InputError(f"{name} has succeeded: {_is_complete(directory)}")
        recreation.recreate(cluster, raw, say=say)
        return f"{name}: created again{_beginning(job)}"
    _training(job)
    if job.spec.run_policy.suspend:
        raise InputError(f"{name} is suspended: tftj resume {name} continues it")
    chiefs = [
        pod
        for pod in cluster.pods(raw)
        if (pod["metadata"].get("labels") or {}).get(LABEL_ROLE) == Role.CHIEF
        and "deletionTimestamp" not in pod["metadata"]
    ]
    if not chiefs:
        raise NotFoundError(f"{name} has no chief to restart: tftj describe {name} says why")
    cluster.delete_pod(chiefs[0])
    return f"{name}: restarting the chief{_beginning(job)}"


def delete(cluster: Cluster, name: str, *, wait: bool) -> str:
    """Delete a job. Raises TFTrainingError."""
    if wait:
        recreation.delete_and_wait(cluster, cluster.job(name))
    else:
        cluster.delete_job(name)
    return f"{name}: deleted"


def _unfinished(cluster: Cluster, name: str, advice: str | None = None) -> Job:
    job = _parsed(cluster.job(name))
    if is_finished(job.status):
        raise InputError(f"{name} has ended ({job.status.state}): {advice or _to_start_again(job)}")
    return job


def _training(job: Job) -> Job:
    """Return a job of which anything trains. Raises InputError for one that only evaluates."""
    if job.status.chief_completion_time is not None:
        raise InputError(
            f"{job.name} trains no longer: its chief has succeeded, and the last checkpoint is"
            f" being evaluated; tftj wait {job.name} waits for the end"
        )
    return job


def _parsed(raw: dict[str, Any]) -> Job:
    """Return a job as it is stored. Raises InputError if the operator refuses it."""
    try:
        return parse_job(raw, datetime.now(UTC))
    except InvalidJobError as error:
        name = raw["metadata"]["name"]
        raise InputError(f"job {name} is not valid: {error}; correct it with kubectl") from error


def _to_start_again(job: Job) -> str:
    directory = _completed_directory(job)
    return "tftj restart starts it again" if directory is None else _is_complete(directory)


def _is_complete(directory: str) -> str:
    return (
        f"{directory} holds its completed training, which the trainer refuses to a job that is"
        " created again (exit code 64). To train further, set spec.checkpoint.resumeFrom to"
        f" {directory} and raise --epochs; to train from the beginning, use another directory; then"
        " tftj submit FILE --replace"
    )


def _completed_directory(job: Job) -> str | None:
    """Return the directory with the job's completed training; None if it can be created again.

    A job that is created again has another uid. To that, the trainer gives a completed training
    only if resumeFrom names it. An emptyDir is gone with its pod, and a script of the user's own
    decides for itself.
    """
    checkpoint, saved = job.spec.checkpoint, job.status.last_checkpoint
    if checkpoint is None or checkpoint.empty_dir is not None:
        return None
    if not is_true(job.status, ConditionType.SUCCEEDED) or not _chief_runs_trainer(job):
        return None
    known = saved.path.rpartition("/")[0] if saved is not None else checkpoint_directory(job)
    directory, origin = (known or "").rstrip("/"), (checkpoint.resume_from or "").rstrip("/")
    return None if directory in (origin, origin.rpartition("/")[0]) else directory


def _chief_runs_trainer(job: Job) -> bool:
    """Tell whether the chief runs the trainer."""
    try:
        return runs_trainer(template(job, Role.CHIEF))
    except InvalidTemplateError:
        return True  # an operator of another version took it


def _beginning(job: Job) -> str:
    step = promised_step(job)
    if step is None:
        return ", from step 0: it has no checkpoint"
    return f", from its checkpoint of step {step} or a newer one"
