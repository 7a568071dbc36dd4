"""What a pass knows beside the pods themselves: reports, refusals, what this process remembers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.core.budgeting import Budgeting
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.networking import Networking
from tftraining_operator.core.observed import Pod
from tftraining_operator.core.progress import Report
from tftraining_operator.core.schedulers.kueue import Flavor, Priority
from tftraining_operator.core.schedulers.offer import Offer

REPORT_AWAITED = timedelta(seconds=30)
"""So long a new chief, or a new operator, may take until the first report."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What was read for a job in a queue of Kueue, where this pass needs it."""

    priority: Priority | None = None
    """Priority that its Workload is to have."""
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    """The flavors that its pods are assigned to."""
    priority_problem: str = ""
    """Why that could not be read."""
    flavor_problem: str = ""
    """Why one of those could not be read: no pod is created until it can."""

    @property
    def is_incomplete(self) -> bool:
        """Whether something could not be read that is to be read again."""
        return bool(self.priority_problem or self.flavor_problem)


NO_QUEUE = QueueFacts()


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one pass."""

    reports: Mapping[Role, Report] = field(default_factory=dict)
    """The newest reports of the present chief and evaluator."""
    asked_since: datetime | None = None
    """Since when this process asks the present chief for reports."""
    refused: Mapping[str, Cause] = field(default_factory=dict)
    """Pods, or other objects, that the API server refused to create, by name."""
    held: frozenset[str] = frozenset()
    """Pods not to be created before retry_at: refused ones and those that were to follow them.
    Also the PodDisruptionBudget, if the API server failed to write it."""
    undeletable: Mapping[str, Cause] = field(default_factory=dict)
    """Pods that the API server refused to delete, by name; not tried again before retry_at."""
    retry_at: datetime | None = None
    """When to try again what was refused."""
    unanswered: bool = False
    """Whether nobody refused it: a webhook that has to admit it does not answer."""
    offer: Offer = Offer()  # noqa: RUF009 - frozen
    """Which schedulers can place a gang, and whether there is Kueue."""
    corrected: Mapping[str, datetime] = field(default_factory=dict)
    """When this process last corrected an object that somebody had changed, by its name."""
    networking: Networking = Networking()  # noqa: RUF009 - frozen
    """Whether jobs have a NetworkPolicy, and who may read their progress."""
    budgeting: Budgeting = Budgeting()  # noqa: RUF009 - frozen
    """Which pods of jobs are protected from eviction."""
    queue: QueueFacts = NO_QUEUE

    def fresh_report(self, chief: Pod | None, now: datetime) -> Report | None:
        """Return the chief's report if it is recent enough to prove something about now."""
        report = self.reports.get(Role.CHIEF)
        if report is None or chief is None or report.received is None:
            return None
        return report if now - report.received <= report.fresh_for else None

    def waits(self, now: datetime) -> bool:
        """Tell whether what was refused is not to be tried again yet."""
        return self.retry_at is not None and now < self.retry_at
