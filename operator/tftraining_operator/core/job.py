"""One job as the core sees it: identity, parsed spec, stored status."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from tftraining_operator.api import keys, rules
from tftraining_operator.api.problems import Problem, field_path
from tftraining_operator.api.status import Status
from tftraining_operator.api.types import ObjectMeta, Spec, other_manager
from tftraining_operator.core import bounds
from tftraining_operator.core.conditions import is_finished
from tftraining_operator.core.history import was_started
from tftraining_operator.core.naming import workload_name
from tftraining_operator.core.roles import traits
from tftraining_operator.core.salvage import stored_spec, stored_status

_MOST_REMEMBERED = 8 * 1024
"""Bytes of a spec that is parsed once for all passes: parsed, it needs thirty times as much."""
_SHOWN_LEVELS = 6
"""Of a path that is too long to show."""


class InvalidJobError(Exception):
    """The stored object is not a job that this operator understands; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Job:
    """A TFTrainingJob."""

    meta: ObjectMeta
    spec: Spec
    status: Status
    repairs: tuple[str, ...] = ()
    """One sentence for each stored status field that was garbage."""
    unsupported: str = ""
    """Why this operator does not understand the spec of a started job; `spec` is a guess then."""
    templates: dict[keys.Role, dict[str, Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """What podtemplate.template has made of the spec."""
    hashes: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """What fingerprint.py has made of it, once it was asked."""

    @property
    def name(self) -> str:
        """metadata.name."""
        return self.meta.name

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return self.meta.namespace

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return self.meta.uid

    @property
    def dispatched(self) -> bool:
        """Whether Kueue gives it to another cluster, and writes its status here."""
        return self.spec.managed_by == keys.MULTIKUEUE

    @property
    def prebuilt_workload(self) -> str | None:
        """Name of the Workload that MultiKueue brought with it from another cluster."""
        label = self.meta.labels.get(keys.PREBUILT_WORKLOAD)
        return self.meta.annotations.prebuilt_workload or label or None

    @property
    def workload_name(self) -> str:
        """Name of its Workload."""
        return self.prebuilt_workload or workload_name(self.name, self.uid)

    @property
    def least_workers(self) -> int | None:
        """With how many workers training can go on, None if it needs all of them."""
        worker = self.spec.worker
        if worker is None or not traits(self.spec.strategy, keys.Role.WORKER).tolerates_absence:
            return None
        return worker.min_replicas

    def desired(self, role: keys.Role) -> int:
        """Return how many pods of `role` the spec asks for, and Kueue has given quota for."""
        wanted, queue = self.spec.replicas(role), self.status.queue
        if role is not keys.Role.WORKER or queue is None or queue.workers is None:
            return wanted
        return min(wanted, queue.workers)

    def cluster_size(self, role: keys.Role) -> int:
        """Return how many tasks of `role` the present cluster was formed for.

        New workers belong to it only when the chief has been restarted with them.
        """
        known = self.status.cluster_workers if role is keys.Role.WORKER else None
        return known if known is not None else self.desired(role)

    def members(self, role: keys.Role) -> Sequence[int]:
        """Return the indexes of a role's tasks that the present cluster has."""
        indexes = range(self.cluster_size(role))
        if role is not keys.Role.WORKER or not self.status.excluded_workers:
            return indexes
        excluded = frozenset(self.status.excluded_workers)
        return tuple(index for index in indexes if index not in excluded)

    @property
    def worker_set(self) -> str:
        """The workers of the present cluster as text: their number, or the indexes if some lack."""
        members = self.members(keys.Role.WORKER)
        whole = len(members) == self.cluster_size(keys.Role.WORKER)
        return str(len(members)) if whole else ",".join(map(str, members))


def is_ours(raw: dict[str, Any]) -> bool:
    """Tell whether an object as the API server returned it is a job of this operator's."""
    managed_by = (raw.get("spec") or {}).get("managedBy")
    return other_manager(managed_by, run_policy(raw).get("managedBy")) is None


def run_policy(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the runPolicy of a job as the API server returned it, {} if that is no object."""
    policy = (raw.get("spec") or {}).get("runPolicy")
    return policy if isinstance(policy, dict) else {}


def parse_job(raw: dict[str, Any], now: datetime) -> Job:
    """Parse an object as the API server returned it. Raises InvalidJobError.

    The spec may come from a newer version: fields that this one does not know are ignored. What it
    cannot understand makes a job invalid only before it is started; later it is `unsupported`.
    """
    meta = ObjectMeta.model_validate(raw["metadata"])
    created = raw["metadata"].get("creationTimestamp")
    status, repairs = stored_status(raw.get("status"), created=created, now=now)
    text = _text(raw.get("spec") or {})
    understand = _understood if len(text) <= _MOST_REMEMBERED else _understood.__wrapped__
    spec, problems = understand(meta.name, text)
    if "specBytes" in raw:
        problems = [_too_large(raw["specBytes"])]
    told = "; ".join(str(problem) for problem in problems)
    if problems and not was_started(status):
        if not is_finished(status):
            raise InvalidJobError(told)
        told = ""  # it has ended for that, and only has to be deleted when its time is over
    return Job(meta=meta, spec=spec, status=status, repairs=repairs, unsupported=told)


@lru_cache(maxsize=256)
def _understood(name: str, text: bytes) -> tuple[Spec, list[Problem]]:
    """Parse a spec, of which a job's passes share the result: nobody changes a spec."""
    raw = msgspec.json.decode(text)
    if (path := bounds.deep_path(raw)) is not None:
        return stored_spec(bounds.cut(raw))[0], [_too_deep(path)]
    spec, problems = stored_spec(raw)
    # The CRD refuses these as well; a job stored under another CRD may still break them.
    return spec, problems or rules.problems(name, spec, stored=True)


def _text(asked: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(asked)
    except RecursionError:
        return msgspec.json.encode(bounds.cut(asked, bounds.MOST_LEVELS + 1))


def _too_large(size: int) -> Problem:
    return Problem(
        "spec",
        f"has {size} bytes, and may have {bounds.MOST_BYTES}: move scripts and data to a"
        " ConfigMap or the image",
    )


def _too_deep(path: Sequence[int | str]) -> Problem:
    return Problem(
        field_path("spec", path[:_SHOWN_LEVELS]),
        f"has more than {bounds.MOST_LEVELS} levels of objects and lists within each other;"
        " remove it, no pod needs that many",
    )
