"""What a change of the operator's version cost jobs that train, and its tables. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from e2e.recording import Sample
from tools.pages import table


@dataclass(frozen=True, slots=True)
class Effect:
    """What became of one job meanwhile."""

    job: str
    pods: int
    replaced: tuple[str, ...]
    """Pods that are not the same any more, or whose container was started again."""
    restarts: int
    """Restarts that its status has counted."""
    first_step: int
    last_step: int
    lost_steps: int
    standstill: float
    """Longest time (s) between two new steps."""
    silence: float
    """Longest time (s) between two writes of its status."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    """An upgrade, a rollback, or nothing for comparison."""

    title: str
    seconds: float
    """Until Helm had done."""
    gaps: tuple[float, ...]
    """Seconds for which nobody held the Lease, at each change of leader."""
    effects: tuple[Effect, ...]


def lost_steps(samples: Sequence[Sample]) -> int:
    """Return by how many steps a counter went back, in all."""
    return sum(max(0, one.step - after.step) for one, after in pairwise(samples))


def new_steps(samples: Sequence[Sample]) -> list[float]:
    """Return the moments at which a step was seen that was not there before."""
    return [after.at for one, after in pairwise(samples) if after.step > one.step]


def longest_pause(times: Sequence[float]) -> float:
    """Return the longest time between two of several moments."""
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


def damage(changes: Sequence[VersionChange]) -> list[str]:
    """Say of each job by which change it was restarted or set back; [] if none was."""
    return [
        f"{change.title}: {effect.job}: {what}"
        for change in changes
        for effect in change.effects
        for what in _damage(effect)
    ]


def _damage(effect: Effect) -> Iterator[str]:
    if effect.replaced:
        yield f"pods replaced or restarted: {', '.join(effect.replaced)}"
    if effect.restarts:
        yield f"restarts counted: {effect.restarts}"
    if effect.lost_steps:
        yield f"steps lost: {effect.lost_steps}"


def markdown(changes: Sequence[VersionChange]) -> str:
    """Return the page's tables: the changes, and what became of each job."""
    head = ("change", "Helm took", "changes of leader", "each time without a leader")
    rows = (
        (
            each.title,
            f"{each.seconds:.1f} s",
            str(len(each.gaps)),
            ", ".join(f"{gap:.2f} s" for gap in each.gaps) or "-",
        )
        for each in changes
    )
    jobs = (
        *("change", "job", "pods", "pods replaced or restarted", "restarts counted", "steps"),
        *("steps lost", "longest time without a step", "without a write of the status"),
    )
    effects = (
        (
            each.title,
            f"`{effect.job}`",
            str(effect.pods),
            str(len(effect.replaced)),
            str(effect.restarts),
            f"{effect.first_step} to {effect.last_step}",
            str(effect.lost_steps),
            f"{effect.standstill:.1f} s",
            f"{effect.silence:.1f} s",
        )
        for each in changes
        for effect in each.effects
    )
    return f"{table(head, rows)}\n\n{table(jobs, effects)}"
