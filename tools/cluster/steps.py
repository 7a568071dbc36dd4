"""Steps that run side by side: which can begin, how far they are, and how much time is left.

`first_build` says what the steps of a cluster are; a display reads the progress.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue

Share = Callable[[float], None]
"""Reports how far a step is, between 0 and 1."""

_MINUTE = 60.0
_KNOWN_SHARE = 0.05
"""Of the expected time; before, the speed of this machine is not known."""
_SLOWEST = 5.0
_MOST = 0.99
"""Share of a step that is not done yet."""


@dataclass(frozen=True, slots=True)
class Step:
    """One part of the work; it begins when those that it needs are done."""

    name: str
    seconds: float
    """Expected on two idle cores."""
    work: Callable[[Share], object] = field(repr=False)
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """How far all steps are at a moment."""

    done: tuple[str, ...]
    """Names of the steps that are done, in the order in which they ended."""
    total: int
    running: tuple[tuple[str, float], ...]
    """Names and shares of the steps that run."""
    share: float
    """Of the time that all take, as far as it is known."""
    seconds_left: float

    @property
    def time_left(self) -> str:
        """The time left in words."""
        if self.seconds_left < _MINUTE:
            return "less than a minute left"
        return f"about {round(self.seconds_left / _MINUTE)} min left"


class Progress:
    """Knows which steps run and how far each is; threads report, a display reads."""

    def __init__(self, steps: Sequence[Step], clock: Callable[[], float] = time.monotonic) -> None:
        self._steps = steps
        self._clock = clock
        self._began = clock()
        self._measured = False
        self._lock = threading.Lock()
        self._shares: dict[str, float] = {}
        """Of the steps that have begun."""
        self._done: list[str] = []

    def report(self, name: str, share: float) -> None:
        """Note how far a step is; a share never falls."""
        with self._lock:
            if share > 0 and not self._measured:
                # What came before, such as downloads, says nothing about the speed.
                self._began, self._measured = self._clock(), True
            self._shares[name] = max(self._shares.get(name, 0.0), min(share, _MOST))

    def end(self, name: str) -> None:
        """Note that a step is done."""
        with self._lock:
            self._shares[name] = 1.0
            self._done.append(name)

    def state(self) -> State:
        """Return how far all steps are."""
        with self._lock:
            shares = dict(self._shares)
            done = tuple(self._done)
        whole, rest = longest(self._steps, {}), longest(self._steps, shares)
        return State(
            done=done,
            total=len(self._steps),
            running=tuple((name, share) for name, share in shares.items() if name not in done),
            share=1 - rest / whole if whole else 1.0,
            seconds_left=time_left(whole, rest, self._clock() - self._began),
        )


def longest(steps: Sequence[Step], shares: dict[str, float]) -> float:
    """Return the expected seconds of the longest chain of steps that is left.

    Steps stand behind those that they need.
    """
    ends: dict[str, float] = {}
    for step in steps:
        begins = max((ends[name] for name in step.needs), default=0.0)
        ends[step.name] = begins + step.seconds * (1 - shares.get(step.name, 0.0))
    return max(ends.values(), default=0.0)


def time_left(whole: float, rest: float, elapsed: float) -> float:
    """Return the seconds left of an expected time, at the speed that was seen so far."""
    made = whole - rest
    if made < _KNOWN_SHARE * whole:
        return rest
    return rest * min(elapsed / made, _SLOWEST)


def run_side_by_side(steps: Sequence[Step], progress: Progress) -> None:
    """Run all steps, each in a thread as soon as those that it needs are done.

    Raises the first exception of a step at once. The threads of the others end with this process,
    and the programs that they run end with them.
    """
    ended: SimpleQueue[tuple[Step, BaseException | None]] = SimpleQueue()

    def work(step: Step) -> None:
        try:
            step.work(lambda share: progress.report(step.name, share))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            ended.put((step, error))
        else:
            ended.put((step, None))

    waiting, done = list(steps), set[str]()
    while len(done) < len(steps):
        for step in [each for each in waiting if done.issuperset(each.needs)]:
            waiting.remove(step)
            progress.report(step.name, 0.0)
            threading.Thread(target=work, args=(step,), name=step.name, daemon=True).start()
        step, error = ended.get()
        if error is not None:
            raise error
        done.add(step.name)
        progress.end(step.name)
