"""The faults of chaos: how often each is chosen, what it hits, and whether it costs a restart."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from e2e import faults
from e2e.faults import Pod
from e2e.install import NAMESPACE
from e2e.scenarios.drill import Drill

_API_AWAY_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    name: str
    role: str
    """Role of the pod that it hits; "" if it hits what all jobs share."""
    weight: int
    make: Callable[[Drill, Pod], None]
    counted: bool = False
    """Whether the job's restart is counted against backoffLimit."""
    returns: bool = True
    """Whether the pod that was hit comes back in another incarnation."""
    blinds: bool = False
    """Whether steps are made meanwhile that nobody can see."""
    skips_checkpoint: bool = False
    """Whether the newest checkpoint cannot be read afterwards."""


def _corrupt(drill: Drill, chief: Pod) -> None:
    # One to be corrupted, one to fall back to. Frozen, the chief cannot write a newer one.
    drill.saves(2)
    chief.freeze()
    faults.corrupt_newest_checkpoint(chief.cluster, chief.namespace, drill.job)
    chief.kill()


def _force(_drill: Drill, pod: Pod) -> None:
    pod.delete(forced=True)


def _kill_operator(_drill: Drill, pod: Pod) -> None:
    faults.kill_operator(pod.cluster, NAMESPACE)


def _stop_apiserver(_drill: Drill, pod: Pod) -> None:
    faults.stop_apiserver(pod.cluster, _API_AWAY_SECONDS)


def _kill(_drill: Drill, pod: Pod) -> None:
    pod.kill()


def _delete(_drill: Drill, pod: Pod) -> None:
    pod.delete()


def _evict(_drill: Drill, pod: Pod) -> None:
    pod.evict()


def _exhaust(_drill: Drill, pod: Pod) -> None:
    pod.exhaust_memory()


def _freeze(_drill: Drill, pod: Pod) -> None:
    pod.freeze()


def _cut_off(_drill: Drill, pod: Pod) -> None:
    pod.cut_off()


KINDS = (
    Kind("process killed", "worker", 12, _kill),
    Kind("pod deleted", "worker", 8, _delete),
    Kind("pod deleted by force", "worker", 8, _force),
    Kind("evicted", "worker", 6, _evict),
    Kind("out of memory", "worker", 6, _exhaust),
    Kind("hung (SIGSTOP)", "worker", 4, _freeze),
    Kind("packets dropped", "worker", 4, _cut_off),
    Kind("process killed", "ps", 6, _kill, counted=True),
    Kind("pod deleted", "ps", 5, _delete, counted=True),
    Kind("evicted", "ps", 5, _evict),
    Kind("out of memory", "ps", 3, _exhaust, counted=True),
    Kind("hung (SIGSTOP)", "ps", 2, _freeze, counted=True),
    Kind("process killed", "chief", 5, _kill, counted=True),
    Kind("pod deleted", "chief", 5, _delete),
    Kind("evicted", "chief", 4, _evict),
    Kind("killed, checkpoint corrupt", "chief", 3, _corrupt, counted=True, skips_checkpoint=True),
    Kind("process killed", "evaluator", 4, _kill),
    Kind("pod deleted", "evaluator", 3, _delete),
    Kind("killed", "", 5, _kill_operator, returns=False),
    Kind("API server away for 20 s", "", 2, _stop_apiserver, returns=False, blinds=True),
)

_MOST_COUNTED = 4
"""Counted restarts of one job: the pauses before them double, and would fill the time."""


def choose(random: Random, number: int) -> list[Kind]:
    """Choose the faults of one job, in their order."""
    chosen: list[Kind] = []
    while len(chosen) < number:
        kind = random.choices(KINDS, [kind.weight for kind in KINDS])[0]
        if kind.counted and sum(k.counted for k in chosen) == _MOST_COUNTED:
            continue
        chosen.append(kind)
    return chosen
