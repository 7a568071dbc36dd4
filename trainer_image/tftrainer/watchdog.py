"""Says when training stands still. Pure: the time is an argument, and acting on it is not ours.

TensorFlow waits for a hung worker or ps without limit and without a word.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Seen:
    step: int
    since: float
    limit: float


class Watchdog:
    """Remembers when the step last moved; read by another thread than the one that trains."""

    def __init__(self, *, stall_seconds: float, first_step_seconds: float) -> None:
        self._stall_seconds = stall_seconds
        self._first_step_seconds = max(first_step_seconds, stall_seconds)
        self._seen: _Seen | None = None

    def start(self, now: float, step: int) -> None:
        """Training begins at this step; its first step may take longer, for it is traced."""
        self._seen = _Seen(step, now, self._first_step_seconds)

    def note(self, now: float, step: int) -> None:
        """Note that the step is this now."""
        if self._seen is not None and step != self._seen.step:
            self._seen = _Seen(step, now, self._stall_seconds)

    def allow_more(self, now: float) -> None:
        """Give time to something slow that is no step, such as a checkpoint of a large model."""
        if self._seen is not None:
            self._seen = _Seen(self._seen.step, now, self._first_step_seconds)

    def expect(self, now: float) -> None:
        """Note that steps come again."""
        if self._seen is not None:
            self._seen = _Seen(self._seen.step, now, self._stall_seconds)

    def stop(self) -> None:
        """Nothing is expected any more."""
        self._seen = None

    def verdict(self, now: float) -> str | None:
        """Why the process must end, or None."""
        seen = self._seen
        if seen is None or now - seen.since < seen.limit:
            return None
        return (
            f"no step for {now - seen.since:.0f} s, standing at step {seen.step}: a worker or ps "
            "hangs or cannot be reached, or one step takes longer than --stall-seconds (the first "
            "one: --first-step-seconds) allows."
        )
