"""Which schedulers' groups can be created in this cluster. controller/groups.py finds it out."""

from dataclasses import dataclass

from tftraining_operator.api.scheduling import Gang
from tftraining_operator.core.schedulers import SCHEDULERS


@dataclass(frozen=True, slots=True)
class Offer:
    """What the cluster offers."""

    usable: frozenset[Gang] = frozenset()
    """Schedulers whose groups the operator can list, so that their API exists."""
    forbidden: frozenset[Gang] = frozenset()
    """Schedulers whose groups the operator is not allowed to list."""

    def problem(self, gang: Gang) -> str:
        """Say why a scheduler cannot be used, and what to do."""
        api = SCHEDULERS[gang].api
        if gang in self.forbidden:
            what = f"the operator may not list {api.resource}: set {api.value}=true in its chart"
        else:
            what = f"the cluster does not serve {api.resource}, which needs {api.needs}"
        return f"gang {gang} is not available: {what}; or set spec.scheduling.gang to None"
