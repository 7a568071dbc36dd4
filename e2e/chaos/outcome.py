"""What a run of chaos learned."""

from dataclasses import dataclass, field

from e2e.chaos.harm import Harm
from e2e.chaos.kinds import Kind
from e2e.chaos.recovery import Recovery
from e2e.recording import Resume


@dataclass(frozen=True, slots=True)
class Injected:
    """One fault and what came of it."""

    at: float
    job: str
    kind: Kind
    recovery: Recovery
    error: str = ""
    """Why it was not repaired, "" if it was."""
    delayed: bool = False
    """Whether the operator paused on purpose, because the job had failed before."""
    explained: frozenset[str] = frozenset()
    """Uids of the pods that may be deleted because of it."""
    restarted: tuple[str, ...] = ()
    """Pods that were ready before and had to stay, but were replaced or restarted."""


@dataclass(slots=True)
class Ended:
    """One job at its end."""

    job: str
    restarts: int
    wanted_restarts: int
    errors: list[str] = field(default_factory=list)
    resumes: list[Resume] = field(default_factory=list)
    unreadable: int = 0


@dataclass(slots=True)
class Outcome:
    """All that a run of chaos learned."""

    seed: int
    seconds: float = 0.0
    injected: list[Injected] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    harms: list[Harm] = field(default_factory=list)
    """Healthy pods that were deleted."""
    operator_kills: int = 0

    @property
    def restarted(self) -> list[str]:
        """Healthy pods that were restarted or replaced, with the fault meanwhile."""
        return [f"{name} ({_title(i)})" for i in self.injected for name in i.restarted]

    @property
    def errors(self) -> list[str]:
        """Everything that is not as it should be."""
        return [
            *([] if self.ended else ["no job was run"]),
            *(f"{_title(i)}: {i.error}" for i in self.injected if i.error),
            *(f"{ended.job}: {error}" for ended in self.ended for error in ended.errors),
            *(f"duplicate: {duplicate}" for duplicate in self.duplicates),
            *(f"healthy pod deleted: {h.pod}, {self._after(h)}" for h in self.harms),
            *(f"healthy pod restarted: {restarted}" for restarted in self.restarted),
        ]

    def fault_of(self, harm: Harm) -> Injected | None:
        """Return the last fault before a deletion that concerned the pod's job."""
        before = [
            i for i in self.injected if i.at <= harm.at and (i.kind.exclusive or i.job == harm.job)
        ]
        return max(before, key=lambda i: i.at, default=None)

    def _after(self, harm: Harm) -> str:
        fault = self.fault_of(harm)
        return f"{harm.at - fault.at:.0f} s after {_title(fault)}" if fault else "before any fault"


def _title(injected: Injected) -> str:
    return f"{injected.job}, {injected.kind.title}"
