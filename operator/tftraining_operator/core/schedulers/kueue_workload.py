"""A Workload of Kueue as observed: what it asks for, and what Kueue has written into it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tftraining_operator.api import keys
from tftraining_operator.core.schedulers.scheduler import condition
from tftraining_operator.core.text import printable

_Object = dict[str, Any]

PREEMPTED = "Preempted"
"""Reason of an eviction that makes room for another job."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What Kueue has given the pods of one role."""

    count: int
    flavors: tuple[str, ...]
    has_topology: bool
    updates: tuple[_Object, ...]
    """What admission checks add to the pods."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A Workload as observed."""

    raw: _Object

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(self.raw["metadata"]["name"])

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return str(self.raw["metadata"]["uid"])

    @property
    def version(self) -> str:
        """metadata.resourceVersion."""
        return str(self.raw["metadata"]["resourceVersion"])

    @property
    def deleting(self) -> bool:
        """Whether it was deleted."""
        return "deletionTimestamp" in self.raw["metadata"]

    @property
    def extension(self) -> int:
        """Number of the extension that it is, 0 for the Workload of a whole job."""
        labels = self.raw["metadata"].get("labels") or {}
        number = str(labels.get(keys.LABEL_EXTENSION) or "")
        return int(number) if number.isdecimal() else 0

    @property
    def shape(self) -> str:
        """Digest of the spec that it was made with."""
        labels = self.raw["metadata"].get("labels") or {}
        return str(labels.get(keys.LABEL_SHAPE) or "")

    @property
    def generation(self) -> str:
        """Generation of the job that it was made of, "" if an older operator made it."""
        labels = self.raw["metadata"].get("labels") or {}
        return str(labels.get(keys.LABEL_GENERATION) or "")

    @property
    def priority(self) -> _Object:
        """The part of its spec that says its priority."""
        return {
            name: self._spec[name]
            for name in ("priority", "priorityClassRef")
            if self._spec.get(name) is not None
        }

    @property
    def queue_name(self) -> str:
        """Name of its LocalQueue."""
        return str(self._spec.get("queueName") or "")

    @property
    def priority_class(self) -> Mapping[str, str] | None:
        """group, kind and name of its priority class."""
        return self._spec.get("priorityClassRef")

    @property
    def finished(self) -> bool:
        """Whether it was declared finished, by us or by somebody else."""
        return self.is_true("Finished")

    @property
    def active(self) -> bool:
        """Whether it may be admitted; an administrator, or Kueue after repeated failures, says."""
        return self._spec.get("active") is not False

    @property
    def holds_quota(self) -> bool:
        """Whether quota is reserved for it, all checks passed or not."""
        return self.is_true("QuotaReserved") or self.is_true("Admitted")

    @property
    def admitted(self) -> bool:
        """Whether its pods may exist."""
        allowed = self.is_true("QuotaReserved") and self.is_true("Admitted")
        return allowed and not (self.evicted or self.deleting or self.finished)

    @property
    def evicted(self) -> bool:
        """Whether its quota is, or was last, taken back; stays until quota is reserved again."""
        return self.is_true("Evicted")

    @property
    def eviction(self) -> tuple[str, str]:
        """Reason and message of the eviction."""
        found = condition(self.raw, "Evicted")
        return str(found.get("reason") or ""), printable(str(found.get("message") or ""))

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of pods by role, as asked for."""
        return {each["name"]: int(each.get("count", 1)) for each in self._spec.get("podSets") or []}

    @property
    def reclaimable(self) -> Mapping[str, int]:
        """Number of pods by role whose quota was given back."""
        found = self._status.get("reclaimablePods") or []
        return {each["name"]: int(each["count"]) for each in found}

    @property
    def assignments(self) -> Mapping[str, Assignment]:
        """What was assigned, by role."""
        found = (self._status.get("admission") or {}).get("podSetAssignments") or []
        checks = self._status.get("admissionChecks") or []
        updates = [update for check in checks for update in check.get("podSetUpdates") or []]
        return {
            each["name"]: Assignment(
                count=int(each.get("count", self.counts.get(each["name"], 0))),
                flavors=tuple(dict.fromkeys((each.get("flavors") or {}).values())),
                has_topology=bool(each.get("topologyAssignment")),
                updates=tuple(update for update in updates if update["name"] == each["name"]),
            )
            for each in found
        }

    @property
    def pending_checks(self) -> list[str]:
        """Names and messages of the admission checks that have not passed."""
        return [
            f"{each['name']}: {each.get('message') or each.get('state')}"
            for each in self._status.get("admissionChecks") or []
            if each.get("state") != "Ready"
        ]

    @property
    def inadmissible(self) -> bool:
        """Whether more than quota is missing, such as the queue itself."""
        return condition(self.raw, "QuotaReserved").get("reason") == "Inadmissible"

    def admitted_count(self, role: str) -> int:
        """Return how many pods of a role have quota."""
        given = self.assignments.get(role)
        if given is None:
            return 0
        return min(given.count, self.counts.get(role, 0) - self.reclaimable.get(role, 0))

    def least(self, role: str) -> int | None:
        """Return how many pods of a role may be admitted instead of all that are asked for."""
        pod_sets = self._spec.get("podSets") or []
        return next((each.get("minCount") for each in pod_sets if each["name"] == role), None)

    def is_true(self, kind: str) -> bool:
        """Tell whether a condition is True."""
        return bool(condition(self.raw, kind).get("status") == "True")

    def explanation(self) -> str:
        """Return why it is not admitted, in Kueue's words as far as it has any."""
        if self.finished:
            return f"Workload {self.name} is finished: delete it, and the job is queued again"
        if not self.active:
            why = self.eviction[1] or "it is not active"
            return f"{why}; to queue the job again, set spec.active of Workload {self.name} to true"
        if self.is_true("QuotaReserved") and not self.evicted:
            return f"quota is reserved; waiting for admission checks: {self._checks()}"
        said = str(condition(self.raw, "QuotaReserved").get("message") or "")
        return printable(said)

    def _checks(self) -> str:
        return printable("; ".join(self.pending_checks)) or "all of them passed"

    @property
    def _spec(self) -> _Object:
        return self.raw.get("spec") or {}

    @property
    def _status(self) -> _Object:
        return self.raw.get("status") or {}
