"""Sends a manifest, or a job made of Python code, to the cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.salvage import stored_status

from tftraining import manifest, recreation
from tftraining.cluster.cluster import Cluster
from tftraining.errors import AlreadyExistsError, InputError

_Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to send: one job, and before it the objects that it needs."""

    job: _Object
    others: Sequence[_Object] = ()
    owned: bool = False
    """Whether the others are deleted with the job."""


def plan_of(documents: Sequence[_Object], source: str, name: str | None) -> Plan:
    """Return what the documents of a file say, with another name for the job if it is given.

    Raises InputError.
    """
    job = manifest.only_job(documents, source)
    if name is not None:
        job = {**job, "metadata": {**(job.get("metadata") or {}), "name": name}}
    others = [each for each in documents if each.get("kind") != keys.KIND]
    for other in others:
        metadata = other.get("metadata")
        named = isinstance(metadata, dict) and metadata.get("name")
        if not other.get("kind") or not other.get("apiVersion") or not named:
            raise InputError(f"{source}: each object needs apiVersion, kind and metadata.name")
    return Plan(job, others)


def check(job: _Object, source: str) -> None:
    """Refuse what the API server would refuse, before anything is sent. Raises InputError."""
    metadata = job.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName") and not metadata.get("name"):
        # As the API server does, with another suffix of that length.
        named = {**metadata, "name": f"{metadata['generateName']}xxxxx"}
        job = {**job, "metadata": named}
    manifest.job_of(job, source, uid="")


def send(cluster: Cluster, plan: Plan, *, replace: bool, say: Callable[[str], None]) -> _Object:
    """Send a plan and return the job as it was created. Raises TFTrainingError.

    If it ends between two calls, what was sent stays, and the same command sends the rest.
    """
    name = plan.job["metadata"].get("name", "")
    existing = cluster.find_job(name) if name else None
    if existing is not None:
        if not replace:
            raise AlreadyExistsError(_exists(existing))
        say(f"deleting the job {name} that exists")
        recreation.delete_and_wait(cluster, existing)
    cluster.create_job(plan.job, dry_run=True)
    for other in plan.others:
        cluster.apply(other)
    created = cluster.create_job(plan.job)
    if plan.owned:
        for other in plan.others:
            cluster.set_owners(other["metadata"]["name"], [recreation.owner(created)])
    return created


def _exists(job: _Object) -> str:
    name = job["metadata"]["name"]
    status, _ = stored_status(job.get("status"), created=None, now=recreation.now())
    state = status.state or "not started yet"
    ended = "it has ended" if is_finished(status) else "it has not ended"
    return (
        f"job {name} exists ({state}; {ended}): delete it first (--replace, replace=True), or give"
        " the new one another name (--name, name=…)"
    )
