"""Which schedulers' groups can be created in this cluster. controller/groups.py finds it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tftraining_operator.api import keys
from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers import SCHEDULERS, kueue
from tftraining_operator.core.schedulers.scheduler import GroupApi


@dataclass(frozen=True, slots=True)
class Offer:
    """What the cluster offers."""

    versions: Mapping[Gang, str] = field(default_factory=dict)
    """The version of the API by scheduler whose groups the operator can list."""
    forbidden: frozenset[Gang] = frozenset()
    """Schedulers whose groups the operator is not allowed to list."""
    silent: frozenset[Gang] = frozenset()
    """Schedulers of which it is not known: the API server has not listed their groups yet."""
    kueue: bool = False
    """Whether Workloads of Kueue are listed, so that its API exists."""
    kueue_forbidden: bool = False
    """Whether the operator is not allowed to list them."""
    kueue_silent: bool = False
    """Whether that is not known, as the API server has not listed them yet."""

    def version(self, gang: Gang) -> str:
        """Return the version of a scheduler's API to be used."""
        return self.versions.get(gang) or SCHEDULERS[gang].api.versions[0]

    def problem(self, gang: Gang) -> str:
        """Say why a scheduler cannot be used, and what to do."""
        api, forbidden, silent = SCHEDULERS[gang].api, gang in self.forbidden, gang in self.silent
        what = _missing(api, forbidden=forbidden, silent=silent)
        return f"gang {gang} is not available: {what}; or set spec.scheduling.gang to None"

    def queue_problem(self, queue: str) -> str:
        """Say why a queue of Kueue cannot be used, and what to do."""
        return (
            f"queue {queue} is not available: {self.kueue_problem()}; or remove"
            f" spec.scheduling.queue and the label {keys.LABEL_QUEUE}"
        )

    def kueue_problem(self) -> str:
        """Say why Kueue cannot be used, and what to do."""
        return _missing(kueue.API, forbidden=self.kueue_forbidden, silent=self.kueue_silent)


def _missing(api: GroupApi, *, forbidden: bool, silent: bool) -> str:
    if forbidden:
        return f"the operator may not list {api.resource}: set {api.value}=true in its chart"
    if silent:
        return (
            f"the API server cannot list {api.resource} at present, as while a webhook of theirs is"
            " away: the operator asks again"
        )
    return f"the cluster does not serve {api.resource}, which needs {api.needs}"
