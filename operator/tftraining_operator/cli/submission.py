"""`tftj submit`: sends a manifest, or a job made of Python code, to the cluster."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tftraining_operator.api import keys, rules
from tftraining_operator.api.problems import Problem, from_error
from tftraining_operator.api.types import parse_spec
from tftraining_operator.cli import recreation
from tftraining_operator.cli.cluster.cluster import Cluster
from tftraining_operator.cli.errors import AlreadyExistsError, InputError
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.salvage import stored_status

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
    jobs = [each for each in documents if each.get("kind") == keys.KIND]
    if len(jobs) != 1:
        found = ", ".join(str(each.get("kind")) for each in documents) or "nothing"
        raise InputError(f"{source}: must contain exactly one {keys.KIND} (found: {found})")
    (job,) = jobs
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
    problems: list[Problem] = []
    if job.get("apiVersion") != keys.API_VERSION:
        found = job.get("apiVersion") or "absent"
        problems.append(Problem("apiVersion", f"must be {keys.API_VERSION}, not {found}"))
    metadata = job.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName", "").rstrip("-") or ""
    if not name:
        problems.append(Problem("metadata.name", "is required"))
    try:
        spec = parse_spec(job.get("spec") or {})
    except ValidationError as error:
        problems += from_error(error)
    else:
        problems += rules.problems(str(name), spec) if name else []
    if problems:
        raise InputError("\n".join(f"{source}: {problem}" for problem in problems))


def send(cluster: Cluster, plan: Plan, *, replace: bool, say: Callable[[str], None]) -> _Object:
    """Send a plan and return the job as it was created. Raises CommandError.

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
        f"job {name} exists ({state}; {ended}): --replace deletes it first, --name gives the new"
        " one another name"
    )
