"""What each role does under each strategy, in one table.

Every module that treats roles differently asks here: the pod's template, TF_CONFIG, the policies,
status. A new strategy is a new column of this table, and is complete when the table is.
"""

from dataclasses import dataclass, replace
from typing import Literal

from tftraining_operator.api.keys import Role
from tftraining_operator.api.types import Strategy


@dataclass(frozen=True, slots=True)
class Traits:
    """What the pods of one role do under one strategy."""

    in_cluster: bool = False
    """Whether TF_CONFIG of the job's other tasks lists it."""
    decides_success: bool = False
    """Whether its exit with 0 completes the training."""
    drives_attempt: bool = False
    """Whether its failure ends the attempt; it is made anew for each attempt."""
    loss_ends_attempt: bool = False
    """Whether the attempt cannot go on when its pod is lost."""
    serves: bool = False
    """Whether it is a server: the chief connects to it, and it never exits by itself."""
    tolerates_absence: bool = False
    """Whether training can go on without some of its pods (minReplicas)."""
    restart_policy: Literal["Always", "OnFailure", "Never"] = "Never"
    """The restartPolicy of its pods: servers restart in place, other restarts are counted."""
    opens_cluster_port: bool = False
    """Whether it listens on the cluster port, which is its readiness probe."""
    reports_progress: bool = False
    """Whether it serves /progress."""
    mounts_checkpoint: bool = False
    """Whether it is told where checkpoints are, and mounts their volume without being asked to."""


_ABSENT = Traits()
"""A role that jobs of the strategy cannot have; the rules of the spec refuse it."""

_CHIEF = Traits(
    in_cluster=True,
    decides_success=True,
    drives_attempt=True,
    loss_ends_attempt=True,
    opens_cluster_port=True,
    reports_progress=True,
    mounts_checkpoint=True,
)
_PS = Traits(
    in_cluster=True,
    loss_ends_attempt=True,
    serves=True,
    restart_policy="Always",
    opens_cluster_port=True,
)
_SERVING_WORKER = replace(_PS, loss_ends_attempt=False, tolerates_absence=True)
_MIRRORED_WORKER = Traits(
    in_cluster=True,
    drives_attempt=True,
    loss_ends_attempt=True,
    opens_cluster_port=True,
    # A mirrored worker writes its own backup; under ParameterServer the chief writes for all.
    mounts_checkpoint=True,
)
_EVALUATOR = Traits(restart_policy="OnFailure", reports_progress=True, mounts_checkpoint=True)

TABLE: dict[Strategy, dict[Role, Traits]] = {
    Strategy.PARAMETER_SERVER: {
        Role.CHIEF: _CHIEF,
        Role.WORKER: _SERVING_WORKER,
        Role.PS: _PS,
        Role.EVALUATOR: _EVALUATOR,
    },
    Strategy.MULTI_WORKER_MIRRORED: {
        Role.CHIEF: _CHIEF,
        Role.WORKER: _MIRRORED_WORKER,
        Role.PS: _ABSENT,
        Role.EVALUATOR: _EVALUATOR,
    },
    Strategy.MIRRORED: {
        # It trains alone: nobody connects to it.
        Role.CHIEF: replace(_CHIEF, opens_cluster_port=False),
        Role.WORKER: _ABSENT,
        Role.PS: _ABSENT,
        Role.EVALUATOR: _EVALUATOR,
    },
}


def traits(strategy: Strategy, role: Role) -> Traits:
    """Return what pods of a role do under a strategy."""
    return TABLE[strategy][role]
