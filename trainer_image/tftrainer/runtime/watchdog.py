"""Detects that training has stalled. Pure: the time is an argument, and supervisor acts on it.

TensorFlow waits a long time for a hung worker or ps, and logs nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tftrainer.config.cluster import Role
from tftrainer.exit_codes import ExitCode
from tftrainer.runtime.progress import Unreachable

# A ps that is silent for so long hangs; on a busy machine one may be for half of that. gRPC mostly
# gives up its calls to one sooner, but not where TensorFlow waits for another connection.
_SILENT_PS_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the process must end."""

    code: ExitCode
    cause: str


@dataclass(frozen=True, slots=True)
class _Seen:
    step: int
    since: float
    limit: float
    for_a_step: float
    """The limit where a step is expected: more for the first."""


class Watchdog:
    """Remembers when the step last moved; read by another thread than the one that trains."""

    def __init__(self, *, stall_seconds: float, first_step_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._first_step_seconds = max(first_step_seconds, stall_seconds)
        self._seen: _Seen | None = None

    def start(self, now: float, step: int, *, skips_input: bool = False) -> None:
        """Start at this step; the first step may take longer, because it is traced.

        It may take any time if data has to be read before it, which nobody sees the progress of.
        """
        limit = math.inf if skips_input else self._first_step_seconds
        self._seen = _Seen(step, now, limit, limit)

    def note(self, now: float, step: int) -> None:
        """Record the current step."""
        if self._seen is not None and step != self._seen.step:
            self._seen = _Seen(step, now, self._stall_seconds, self._stall_seconds)

    def allow_more(self, now: float) -> None:
        """Allow time for something slow that is not a step, such as saving a large model."""
        if self._seen is not None:
            self._seen = replace(self._seen, since=now, limit=self._first_step_seconds)

    def pause(self, now: float) -> None:
        """Expect no step, for as long as it takes: code of the user's runs."""
        if self._seen is not None:
            self._seen = replace(self._seen, since=now, limit=math.inf)

    def expect(self, now: float) -> None:
        """Expect steps again."""
        if self._seen is not None:
            self._seen = replace(self._seen, since=now, limit=self._seen.for_a_step)

    def stop(self) -> None:
        """Expect no more steps."""
        self._seen = None

    def verdict(self, now: float, unreachable: Iterable[Unreachable] = ()) -> Verdict | None:
        """Why the process must end, or None; `unreachable` are the peers that do not answer."""
        seen = self._seen
        if seen is None:
            return None
        still = now - seen.since
        if still >= seen.limit:
            return Verdict(
                ExitCode.STALLED,
                f"no step completed for {still:.0f} s, at step {seen.step}: a worker or ps hangs "
                "or is unreachable, or a step takes longer than --stall-seconds (the first step: "
                "--first-step-seconds) allows.",
            )
        # While something slow is under way, a busy ps may have no time to answer.
        if seen.limit > self._stall_seconds or still < _SILENT_PS_SECONDS:
            return None
        for peer in unreachable:
            silent = peer.seconds(now)
            if peer.task.startswith(f"{Role.PS}-") and silent >= _SILENT_PS_SECONDS:
                return Verdict(
                    ExitCode.PARAMETER_SERVER_LOST,
                    f"{peer.task} has not answered for {silent:.0f} s ({peer.reason}), and no "
                    f"step completed for {still:.0f} s. Training resumes from the newest "
                    "checkpoint when the chief restarts.",
                )
        return None
