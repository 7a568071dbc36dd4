"""The kinds of faults: how often each is chosen, what it hits, and what it may cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from e2e import platform_faults
from e2e.chaos import injections
from e2e.faults import Pod

STALL_SECONDS = 40
STARTUP_SECONDS = 60
"""The timers of a chaos job, short, so that an operator can be away for longer."""

_ROLES = frozenset(("chief", "worker", "ps", "evaluator"))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    name: str
    role: str
    """What it hits: a pod of this role, "job", or "" for what all jobs share."""
    weight: int
    inject: Callable[[injections.Fault], None]
    counted: bool = False
    """Whether the job's restart is counted against backoffLimit."""
    returns: bool = True
    """Whether the pod that was hit comes back in another incarnation."""
    alone: bool = False
    """Whether no other job may be hit meanwhile."""
    replaces: frozenset[str] = frozenset()
    """Roles of which pods may be replaced because of it, beside the pod that was hit."""
    blinds: bool = False
    """Whether steps are made meanwhile that nobody can see."""
    skips_checkpoint: bool = False
    """Whether the newest checkpoint cannot be read afterwards."""
    needs_previous: bool = False
    """Whether it takes the version before this one."""

    @property
    def hits_pod(self) -> bool:
        """Whether it is a pod that is hit."""
        return self.role in _ROLES

    @property
    def exclusive(self) -> bool:
        """Whether no other job is hit meanwhile."""
        return self.alone or not self.role

    @property
    def title(self) -> str:
        """What is hit, and how."""
        return f"{self.role or 'all'} {self.name}"


_PS_LOST = frozenset(("chief",))
"""A chief ends with its ps."""

KINDS = (
    Kind("process killed", "worker", 12, injections.on_pod(Pod.kill)),
    Kind("pod deleted", "worker", 8, injections.on_pod(Pod.delete)),
    Kind("pod deleted by force", "worker", 8, injections.on_pod(injections.delete_by_force)),
    Kind("evicted", "worker", 6, injections.on_pod(Pod.evict)),
    Kind("out of memory", "worker", 6, injections.on_pod(Pod.exhaust_memory)),
    Kind("hung (SIGSTOP)", "worker", 4, injections.on_pod(Pod.freeze)),
    Kind("packets dropped", "worker", 4, injections.on_pod(Pod.cut_off)),
    Kind("process killed", "ps", 6, injections.on_pod(Pod.kill), counted=True, replaces=_PS_LOST),
    Kind("pod deleted", "ps", 5, injections.on_pod(Pod.delete), counted=True, replaces=_PS_LOST),
    Kind("evicted", "ps", 5, injections.on_pod(Pod.evict), replaces=_PS_LOST),
    Kind(
        "out of memory",
        "ps",
        3,
        injections.on_pod(Pod.exhaust_memory),
        counted=True,
        replaces=_PS_LOST,
    ),
    Kind("hung (SIGSTOP)", "ps", 2, injections.on_pod(Pod.freeze), counted=True, replaces=_PS_LOST),
    Kind("process killed", "chief", 5, injections.on_pod(Pod.kill), counted=True),
    Kind("pod deleted", "chief", 5, injections.on_pod(Pod.delete)),
    Kind("evicted", "chief", 4, injections.on_pod(Pod.evict)),
    Kind(
        "killed, checkpoint corrupt",
        *("chief", 3, injections.corrupt_and_kill),
        counted=True,
        skips_checkpoint=True,
    ),
    Kind(
        "killed, operator away for 70 s",
        *("chief", 1, injections.kill_without_operator),
        counted=True,
        alone=True,
    ),
    Kind(
        "cut off from its servers for 3 s",
        "chief",
        2,
        injections.on_pod(injections.cut_off_briefly),
        returns=False,
    ),
    Kind(
        "cut off from its servers",
        "chief",
        2,
        injections.on_pod(Pod.cut_off_from_servers),
        counted=True,
    ),
    Kind(
        "labelled attempt=999",
        "chief",
        1,
        injections.on_pod(injections.relabel_attempt),
        returns=False,
    ),
    Kind("process killed", "evaluator", 4, injections.on_pod(Pod.kill)),
    Kind("pod deleted", "evaluator", 3, injections.on_pod(Pod.delete)),
    Kind("pod deleted under a quota of 0", "worker", 2, injections.delete_under_quota, alone=True),
    Kind(
        "job label removed for 5 s",
        "worker",
        1,
        injections.on_pod(injections.unlabel),
        returns=False,
    ),
    Kind(
        "suspended and resumed",
        "job",
        3,
        injections.on_job(injections.suspend_and_resume),
        replaces=_ROLES,
    ),
    Kind(
        "scaled up without room, and back",
        *("job", 2, injections.scale_up_without_room),
        returns=False,
        alone=True,
    ),
    Kind("status garbled", "job", 1, injections.on_job(injections.garble_status), returns=False),
    Kind("Finished forged", "job", 1, injections.on_job(injections.forge_finished), returns=False),
    Kind(
        "Service selectors changed",
        "job",
        1,
        injections.on_job(injections.redirect_services),
        returns=False,
    ),
    Kind(
        "operator killed",
        *("", 5, lambda fault: platform_faults.kill_operator(fault.cluster)),
        returns=False,
    ),
    Kind(
        "operator away for 70 s",
        *(
            "",
            1,
            injections.lasting(platform_faults.without_operator, injections.OPERATOR_AWAY_SECONDS),
        ),
        returns=False,
    ),
    Kind(
        "operator and CRD of before, and back",
        *("", 1, injections.exchange_versions),
        returns=False,
        needs_previous=True,
    ),
    Kind(
        "API server away for 20 s",
        *(
            "",
            2,
            injections.lasting(platform_faults.without_apiserver, injections.API_AWAY_SECONDS),
        ),
        returns=False,
        blinds=True,
    ),
    Kind(
        "API server slow (5 s) and failing (10 %)",
        *("", 1, injections.lasting(injections.slow, injections.SLOW_API_SECONDS)),
        returns=False,
    ),
    Kind(
        "CoreDNS away for 30 s",
        *("", 1, injections.lasting(platform_faults.without_dns, injections.DNS_AWAY_SECONDS)),
        returns=False,
    ),
    Kind(
        "/progress unreachable for 40 s",
        *(
            "",
            1,
            injections.lasting(
                platform_faults.progress_unreachable, injections.UNREACHABLE_SECONDS
            ),
        ),
        returns=False,
    ),
)

_MOST_COUNTED = 4
"""Counted restarts of one job: the pauses before them double, and would fill the time."""


def deal(random: Random, jobs: int, each: int, kinds: Sequence[Kind] = KINDS) -> list[list[Kind]]:
    """Choose so many faults for each of the jobs: every kind at least once, the rest by weight.

    With fewer faults than kinds, some kinds are left out.
    """
    chosen = [*kinds]
    random.shuffle(chosen)
    weights = [kind.weight for kind in kinds]
    hands = list[list[Kind]]([] for _ in range(jobs))
    while open_hands := [hand for hand in hands if len(hand) < each]:
        kind = chosen.pop() if chosen else random.choices(kinds, weights)[0]
        takers = [h for h in open_hands if not kind.counted or _counted(h) < _MOST_COUNTED]
        if takers:
            min(takers, key=len).append(kind)
    for hand in hands:
        random.shuffle(hand)
    return hands


def _counted(hand: list[Kind]) -> int:
    return sum(kind.counted for kind in hand)
