"""Scales, suspends, resumes, restarts and deletes jobs; each function returns one sentence."""

from collections.abc import Callable

from tftraining_operator.api.keys import LABEL_ROLE, Role
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.job import Job, parse_job

from tftraining import recreation
from tftraining.cluster.cluster import Cluster
from tftraining.errors import InputError, NotFoundError


def scale(cluster: Cluster, name: str, workers: int) -> str:
    """Change the number of workers.

    Raises TFTrainingError, such as the CRD's rules in their words.
    """
    job = _unfinished(cluster, name, "its workers cannot be changed")
    before = job.desired(Role.WORKER)
    if before == workers:
        return f"{name}: has {_workers(workers)} already"
    cluster.patch_job(name, {"spec": {"worker": {"replicas": workers}}})
    return f"{name}: scaled from {before} to {_workers(workers)}"


def set_suspend(cluster: Cluster, name: str, *, value: bool) -> str:
    """Suspend or resume a job. Raises TFTrainingError."""
    job = _unfinished(cluster, name, "tftj restart starts it again")
    if job.spec.run_policy.suspend is value:
        return f"{name}: {'is suspended already' if value else 'is not suspended'}"
    cluster.patch_job(name, {"spec": {"runPolicy": {"suspend": value}}})
    if value:
        return f"{name}: suspending; tftj resume {name} continues it"
    return f"{name}: resuming from its newest checkpoint"


def restart(cluster: Cluster, name: str, *, say: Callable[[str], None] = lambda _text: None) -> str:
    """Restart the chief of a running job, or create an ended one again. Raises TFTrainingError."""
    raw = cluster.job(name)
    job = parse_job(raw, recreation.now())
    if is_finished(job.status):
        recreation.recreate(cluster, raw, say=say)
        return f"{name}: created again{_beginning(job)}"
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


def _unfinished(cluster: Cluster, name: str, advice: str) -> Job:
    job = parse_job(cluster.job(name), recreation.now())
    if is_finished(job.status):
        raise InputError(f"{name} has ended ({job.status.state}): {advice}")
    return job


def _beginning(job: Job) -> str:
    saved = job.status.last_checkpoint
    if job.spec.checkpoint is None or saved is None:
        return ", from step 0: it has no checkpoint"
    return f", from its checkpoint of step {saved.step} or a newer one"


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"
