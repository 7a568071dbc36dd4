"""What this process remembers of a job between two passes.

None of it has to survive the process: a new operator asks again, or waits once more. What must
survive stands in the status.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tftraining_operator.api.keys import Role
from tftraining_operator.core.budgeting import Budgeting
from tftraining_operator.core.cause import Cause
from tftraining_operator.core.events import Actions
from tftraining_operator.core.facts import NO_QUEUE, Facts, QueueFacts
from tftraining_operator.core.networking import Networking
from tftraining_operator.core.observed import Observed, Pod
from tftraining_operator.core.pace import Pace
from tftraining_operator.core.progress import Report, Told
from tftraining_operator.core.schedulers.offer import Offer
from tftraining_operator.core.times import parse, rfc3339

_FIRST_RETRY = timedelta(seconds=15)
_FIRST_RETRY_SOON = timedelta(seconds=0.25)
_LONGEST_RETRY = timedelta(seconds=60)

_GRACE = timedelta(seconds=30)
"""Kubernetes' default; if a pod is never seen to end, it counts as overdue some time after."""

_Moments = dict[str, datetime]
"""When something was first seen, by the uid of a pod."""

_IMMEDIATE_PASSES = 3
_PAUSE_SECONDS = 1.0


class _Backoff:
    """Delays between tries, each twice the one before."""

    def __init__(self, first: timedelta) -> None:
        self._first = self._next = first

    @property
    def is_first(self) -> bool:
        """Whether none was taken yet."""
        return self._next == self._first

    def take(self) -> timedelta:
        """Return the delay until the next try."""
        delay = self._next
        self._next = min(2 * delay, _LONGEST_RETRY)
        return delay

    def reset(self) -> None:
        """Begin with the first one again."""
        self._next = self._first


@dataclass(slots=True)
class Memory:
    """Memory of one job."""

    job_uid: str
    refused: dict[str, Cause] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    undeletable: dict[str, Cause] = field(default_factory=dict)
    retry_at: datetime | None = None
    unanswered: bool = False
    """Whether of what was refused something waits for a webhook's answer."""
    told: Told | None = None
    """What the stored status has of the training's steps."""
    corrected: dict[str, datetime] = field(default_factory=dict)
    judged: int | None = None
    """The generation whose templates the API server has accepted."""
    untold: Actions = field(default_factory=Actions)
    """What was done for the job and is told with its next status."""
    turn_at: datetime | None = None
    """When its status, which waits for its turn among all jobs, may be written."""
    _retry: _Backoff = field(default_factory=lambda: _Backoff(_FIRST_RETRY))
    _retry_soon: _Backoff = field(default_factory=lambda: _Backoff(_FIRST_RETRY_SOON))
    _chief_uid: str = ""
    _asked_since: datetime | None = None
    _ready_since: _Moments = field(default_factory=dict)
    _trains_since: _Moments = field(default_factory=dict)
    _immediate: int = 0
    _held_since: datetime | None = None
    _ending: dict[str, str] = field(default_factory=dict)

    @property
    def was_refused(self) -> bool:
        """Whether the API server refused something when pods were last created or deleted."""
        return not self._retry.is_first

    def facts(
        self,
        reports: Mapping[Role, Report],
        offer: Offer,
        networking: Networking,
        budgeting: Budgeting,
        queue: QueueFacts = NO_QUEUE,
    ) -> Facts:
        """Return what decisions need of it."""
        return Facts(
            reports=reports,
            asked_since=self._asked_since,
            refused=self.refused,
            held=self.held,
            undeletable=self.undeletable,
            retry_at=self.retry_at,
            unanswered=self.unanswered,
            offer=offer,
            networking=networking,
            budgeting=budgeting,
            corrected=self.corrected,
            queue=queue,
        )

    def note_refusals(
        self,
        refused: dict[str, Cause],
        held: frozenset[str],
        undeletable: dict[str, Cause],
        now: datetime,
        *,
        soon: bool,
    ) -> None:
        """Note what was refused now; nothing of it is tried again before retry_at.

        That is `soon` at first where nobody refused it, but somebody did not answer.
        """
        self.refused |= refused
        self.held |= held
        self.undeletable |= undeletable
        self.unanswered |= soon
        self.retry_at = now + (self._retry_soon if soon else self._retry).take()

    def forget_refusals(self, now: datetime) -> None:
        """Try again what was refused, if its time has come."""
        if self.retry_at is not None and now >= self.retry_at:
            self.refused, self.held, self.undeletable = {}, frozenset(), {}
            self.retry_at = None
            self.unanswered = False

    def note_success(self) -> None:
        """Note that nothing is refused any more."""
        if self.retry_at is None:
            self._retry.reset()
            self._retry_soon.reset()

    def ask(self, chief: Pod | None, since: datetime) -> None:
        """Note since when a chief is asked for reports, if it is another one than before."""
        uid = chief.uid if chief is not None and chief.progress_url else ""
        if uid != self._chief_uid:
            self._chief_uid, self._asked_since = uid, since if uid else None

    def note_ending(self, uids: Iterable[str], now: datetime) -> None:
        """Note that pods were told to end, before the watch tells of it."""
        self._ending |= dict.fromkeys(uids, rfc3339(now + _GRACE))

    def settle(self, observed: Observed, now: datetime) -> Observed:
        """Return pods as this process knows them: told to end, and since when they run or serve."""
        return self._with_ends(self._with_clocks(observed, now))

    def _with_ends(self, observed: Observed) -> Observed:
        known = {pod.uid for pod in observed.pods.values()}
        self._ending = {uid: end for uid, end in self._ending.items() if uid in known}
        if not self._ending:
            return observed
        pods = {
            slot: replace(pod, grace_ends=pod.grace_ends or self._ending.get(pod.uid))
            for slot, pod in observed.pods.items()
        }
        return replace(observed, pods=pods)

    def _with_clocks(self, observed: Observed, now: datetime) -> Observed:
        """Return pods that do not run, nor are ready, since later than this process first saw it.

        A node's clock may be ahead: what it calls the future must not seem new at each look.
        """
        ready: _Moments = {}
        trains: _Moments = {}
        changed = {}
        for slot, pod in observed.pods.items():
            ready_since = _first_seen(pod, pod.ready_since, self._ready_since, ready, now)
            trains_since = _first_seen(pod, pod.trains_since, self._trains_since, trains, now)
            if (ready_since, trains_since) != (pod.ready_since, pod.trains_since):
                changed[slot] = replace(pod, ready_since=ready_since, trains_since=trains_since)
        self._ready_since, self._trains_since = ready, trains
        return replace(observed, pods={**observed.pods, **changed}) if changed else observed

    def hold(self, hold: timedelta, now: datetime) -> datetime | None:
        """Return until when a status waits that tells only of some pods, None to write it now."""
        if self._held_since is None:
            self._held_since = now
        due = self._held_since + hold
        return due if due > now else None

    def turn(self, pace: Pace, now: datetime) -> datetime | None:
        """Return until when a status waits for its turn among all jobs, None if it has come."""
        if self.turn_at is None:
            self.turn_at = pace.turn(now)
        return self.turn_at if self.turn_at > now else None

    def begin(self, pace: Pace, now: datetime) -> datetime | None:
        """Return until when a status that can wait is to wait, None to write it now."""
        due = self.turn(pace, now)
        if due is None and (free := pace.begin(now)) > now:
            due = self.turn_at = free
        return due

    def note_written(self) -> None:
        """Note that a status was written that tells of pods."""
        self._held_since = None

    def note_told(self) -> None:
        """Note that the status says all that there is to say."""
        self.untold, self.turn_at = Actions(), None

    def next_pass_after_write(self) -> float:
        """Return in how many seconds to look again at what a write may have begun.

        At once, but not for ever: a status that differs at each look must make no hot loop.
        """
        self._immediate += 1
        return 0.0 if self._immediate <= _IMMEDIATE_PASSES else _PAUSE_SECONDS

    def note_rest(self) -> None:
        """Note a pass that had nothing to write."""
        self._immediate = 0


def _first_seen(
    pod: Pod, since: str | None, before: _Moments, known: _Moments, now: datetime
) -> str | None:
    """Return the earlier of a node's time and when this process first saw it; note that one."""
    if since is None:
        return None
    first = known[pod.uid] = before.get(pod.uid, now)
    return rfc3339(first) if first < parse(since) else since
