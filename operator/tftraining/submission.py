"""Sends a manifest, or a job made of Python code, to the cluster."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.salvage import stored_status

from tftraining import code, manifest, recreation
from tftraining.cluster.cluster import Cluster
from tftraining.errors import AlreadyExistsError, InputError, NotFoundError, TFTrainingError

_Object = dict[str, Any]


_NOTED = frozenset(
    {
        *("uid", "resourceVersion", "generation", "managedFields", "selfLink"),
        *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)
"""What an API server notes in the metadata of an object that it has created."""


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
    job = _as_new(manifest.only_job(documents, source))
    metadata = job.get("metadata") or {}
    if name is not None and isinstance(metadata, dict):
        job = {**job, "metadata": {**metadata, "name": name}}
    others = [each for each in documents if each.get("kind") != keys.KIND]
    for other in others:
        metadata = other.get("metadata")
        named = isinstance(metadata, dict) and metadata.get("name")
        if not other.get("kind") or not other.get("apiVersion") or not named:
            raise InputError(f"{source}: each object needs apiVersion, kind and metadata.name")
    return Plan(job, others)


def _as_new(job: _Object) -> _Object:
    """Return a job without what an API server has noted of it, as in `tftj get -o yaml`.

    With a resource version none is created, which a dry run does not find: with --replace, the old
    job would be gone.
    """
    job = {name: value for name, value in job.items() if name != "status"}
    if isinstance(metadata := job.get("metadata"), dict):
        kept = {name: value for name, value in metadata.items() if name not in _NOTED}
        job["metadata"] = kept
    return job


def check(job: _Object, source: str) -> None:
    """Refuse what the API server would refuse, before anything is sent. Raises InputError."""
    metadata = job.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName") and not metadata.get("name"):
        # As the API server does, with another suffix of that length.
        named = {**metadata, "name": f"{metadata['generateName']}xxxxx"}
        job = {**job, "metadata": named}
    manifest.job_of(job, source, uid="")


def namespace_of(job: _Object, given: str | None, source: str) -> str | None:
    """Return the namespace to send a job to: as kubectl does, that of the manifest goes first.

    `given` is --namespace; None is that of the context. Raises InputError if both are there and
    differ.
    """
    own: str | None = job["metadata"].get("namespace") or None
    if own is not None and given not in (None, own):
        raise InputError(
            f"{source}: metadata.namespace is {own}, --namespace {given}: change or omit one of"
            " them"
        )
    return own or given


def send(cluster: Cluster, plan: Plan, *, replace: bool, say: Callable[[str], None]) -> _Object:
    """Send a plan and return the job as it was created. Raises TFTrainingError.

    A job is replaced only if the API server would take the new one and what comes with it. If it
    ends between two calls, what was sent stays, and the same command sends the rest.
    """
    name = plan.job["metadata"].get("name", "")
    existing = cluster.find_job(name) if name else None
    if existing is None:
        _check_job(cluster, plan)
        _check_code(cluster, plan)
        _release(cluster, plan)
        return _create(cluster, plan, Cluster.create_job, say)
    if not replace:
        raise AlreadyExistsError(_exists(existing))
    recreation.check_replacement(cluster, plan.job)
    for other in plan.others:
        cluster.apply(other, dry_run=True)
    _check_code(cluster, plan)
    say(f"deleting the job {name} that exists")
    _release(cluster, plan)
    try:
        recreation.delete_and_wait(cluster, existing)
    except TFTrainingError as error:
        text = f"{error}; the new job is not created: submit it again when the old one is gone"
        raise type(error)(text) from error
    try:
        return _create(cluster, plan, recreation.create_replacement, say)
    except TFTrainingError as error:
        text = f"{error}; the old job {name} is deleted: submit it again to create the new one"
        raise type(error)(text) from error


def _create(
    cluster: Cluster,
    plan: Plan,
    create_job: Callable[[Cluster, _Object], _Object],
    say: Callable[[str], None],
) -> _Object:
    for other in plan.others:
        cluster.apply(other)
    created = create_job(cluster, plan.job)
    if plan.owned:
        names = [other["metadata"]["name"] for other in plan.others]
        recreation.adopt(cluster, names, created, say)
    return created


def _check_job(cluster: Cluster, plan: Plan) -> None:
    """Ask whether the API server would take the job, unless its namespace is to come with it."""
    try:
        cluster.create_job(plan.job, dry_run=True)
    except NotFoundError:
        made = [each["metadata"]["name"] for each in plan.others if each["kind"] == "Namespace"]
        if cluster.namespace not in made or cluster.read(f"/apis/{keys.API_VERSION}") is None:
            raise


def _check_code(cluster: Cluster, plan: Plan) -> None:
    """Refuse to write over what tftj did not make: it would be deleted with the job."""
    for other in plan.others if plan.owned else ():
        name = other["metadata"]["name"]
        found = cluster.config_map(name)
        if found is not None and not code.is_own(found):
            raise AlreadyExistsError(
                f"ConfigMap {name} exists, and tftj did not make it: delete it, or give the job"
                " another name (--name, name=…)"
            )


def _release(cluster: Cluster, plan: Plan) -> None:
    """Take the code of an earlier job of the name from it, if it is still there.

    The garbage collector may come late, and would delete what has been applied for the new job.
    """
    for other in plan.others if plan.owned else ():
        with contextlib.suppress(NotFoundError):
            cluster.set_owners(other["metadata"]["name"], [])


def _exists(job: _Object) -> str:
    name = job["metadata"]["name"]
    status, _ = stored_status(job.get("status"), created=None, now=datetime.now(UTC))
    state = status.state or "not started yet"
    ended = "it has ended" if is_finished(status) else "it has not ended"
    return (
        f"job {name} exists ({state}; {ended}): delete it first (--replace, replace=True), or give"
        " the new one another name (--name, name=…)"
    )
