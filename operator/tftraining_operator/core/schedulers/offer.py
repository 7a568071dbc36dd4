"""Which schedulers' groups can be created in this cluster. controller/groups.py finds it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from tftraining_operator.api import keys
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers import SCHEDULERS, kueue
from tftraining_operator.core.schedulers.scheduler import GroupApi


class Availability(Enum):
    """Whether an API that others bring can be used."""

    USABLE = auto()
    MISSING = auto()
    """The cluster does not serve it."""
    FORBIDDEN = auto()
    """The operator is not allowed to list its objects."""
    SILENT = auto()
    """That is not known, as the API server has not listed any yet."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the cluster offers."""

    versions: Mapping[Gang, str] = field(default_factory=dict)
    """The version of the API by scheduler whose groups the operator can list."""
    forbidden: frozenset[Gang] = frozenset()
    """Schedulers whose groups the operator is not allowed to list."""
    silent: frozenset[Gang] = frozenset()
    """Schedulers of which it is not known: the API server has not listed their groups yet."""
    workloads: Availability = Availability.MISSING
    """Whether the operator can list Workloads of Kueue."""

    @property
    def kueue(self) -> bool:
        """Whether Workloads of Kueue are listed, so that its API exists."""
        return self.workloads is Availability.USABLE

    def version(self, gang: Gang) -> str:
        """Return the version of a scheduler's API to be used."""
        return self.versions.get(gang) or SCHEDULERS[gang].api.versions[0]

    def problem(self, gang: Gang) -> str:
        """Say why a scheduler cannot be used, and what to do."""
        found = Availability.MISSING
        if gang in self.forbidden:
            found = Availability.FORBIDDEN
        elif gang in self.silent:
            found = Availability.SILENT
        what = _problem(SCHEDULERS[gang].api, found)
        return f"gang {gang} is not available: {what}; or set spec.scheduling.gang to None"

    def queue_problem(self, queue: str) -> str:
        """Say why a queue of Kueue cannot be used, and what to do."""
        return (
            f"queue {queue} is not available: {self.kueue_problem()}; or remove"
            f" spec.scheduling.queue and the label {keys.LABEL_QUEUE}"
        )

    def kueue_problem(self) -> str:
        """Say why Kueue cannot be used, and what to do."""
        return _problem(kueue.API, self.workloads)


def _problem(api: GroupApi, found: Availability) -> str:
    if found is Availability.FORBIDDEN:
        return f"the operator may not list {api.resource}: set {api.value}=true in its chart"
    if found is Availability.SILENT:
        return (
            f"the API server cannot list {api.resource} at present, as while a webhook of theirs is"
            " away: the operator asks again"
        )
    return f"the cluster does not serve {api.resource}, which needs {api.needs}"
