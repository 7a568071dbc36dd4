"""Probes every peer again and again, in threads beside the training; keeps `unreachable` current.

TensorFlow waits without limit and logs nothing: at the start for every server, later for one that
hangs. Started by __main__; probes with peers.py.
"""

import logging
import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread

from tftrainer.config.cluster import Member
from tftrainer.errors import PeersUnavailableError
from tftrainer.peering.peers import Failure, Probe
from tftrainer.runtime.progress import Cause, Progress, Unreachable
from tftrainer.runtime.supervisor import Run

_LOG = logging.getLogger(__name__)
_THREADS = 32
_TICK_SECONDS = 0.1
# Between two probes of a peer; one that comes back should be seen at once.
_ABSENT_SECONDS = 0.5
_PRESENT_SECONDS = 2.0
_LOG_SECONDS = 10.0


class PeerWatch:
    """Keeps `unreachable` of the progress current."""

    def __init__(self, members: Iterable[Member], progress: Progress, probe: Probe) -> None:
        self._progress = progress
        self._probe = probe
        self._unreachable = {
            member: Unreachable(member.name, None, Cause.NOT_ASKED, "not asked yet")
            for member in members
        }
        # A peer that is being probed is never due.
        self._due = dict.fromkeys(self._unreachable, time.monotonic())
        self._lock = Lock()
        self._ended = Event()

    def start(self) -> None:
        """Start probing, in threads."""
        self._publish()
        Thread(target=self._probe_all, name="peers", daemon=True).start()

    def stop(self) -> None:
        """Stop probing and report no peer as unreachable."""
        with self._lock:
            self._ended.set()
            self._progress.update(unreachable=())

    def wait(self, run: Run, *, timeout: float) -> None:
        """Return when every peer answers; raises PeersUnavailableError after the timeout."""
        start = logged_at = time.monotonic()
        logged = frozenset(self._unreachable)
        while absent := dict(self._unreachable):
            run.raise_if_stopped()
            now = time.monotonic()
            names = ", ".join(f"{each.task} ({each.reason})" for each in absent.values())
            if now - start > timeout and all(each.since is not None for each in absent.values()):
                raise PeersUnavailableError(
                    f"peers did not answer within {timeout:.0f} s (--peer-timeout): {names}."
                )
            if now - logged_at > _LOG_SECONDS or frozenset(absent) != logged:
                _LOG.info("waiting for %s (%.0f s)", names, now - start)
                logged_at, logged = now, frozenset(absent)
            run.stop.wait(_TICK_SECONDS)
        _LOG.info("all peers answered after %.0f s", time.monotonic() - start)

    def _probe_all(self) -> None:
        with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="peer") as pool:
            while not self._ended.wait(_TICK_SECONDS):
                now = time.monotonic()
                for member in [member for member, due in self._due.items() if due <= now]:
                    self._due[member] = float("inf")
                    try:
                        pool.submit(self._probe_one, member)
                    except RuntimeError:
                        # A script of the user's own exits as Python does, and threads go first.
                        return

    def _probe_one(self, member: Member) -> None:
        try:
            failure = self._probe(member)
        except Exception as error:  # noqa: BLE001 -- whatever it is, this peer is probed again
            failure = Failure(Cause.FAILED, f"{type(error).__name__}: {error}")
        now = time.monotonic()
        with self._lock:
            before = self._unreachable.get(member)
            after = _after(before, member, failure, now) if failure else None
            if after is None:
                self._unreachable.pop(member, None)
            else:
                self._unreachable[member] = after
            if after != before and not self._ended.is_set():
                self._publish()
        # Not all peers at the same moment, however many there are.
        spread = random.uniform(0.8, 1.2)  # noqa: S311 -- no secret
        self._due[member] = now + spread * (_ABSENT_SECONDS if failure else _PRESENT_SECONDS)

    def _publish(self) -> None:
        # In the order of the members, which `_due` keeps.
        known = [self._unreachable.get(member) for member in self._due]
        self._progress.update(unreachable=tuple(each for each in known if each is not None))


def _after(before: Unreachable | None, member: Member, failure: Failure, now: float) -> Unreachable:
    """Return the entry of a peer after a failed probe.

    Its seconds go on only while the failures say the same about the peer: a name that did not
    resolve is no evidence that the peer was down at that time, nor is what was at another address.
    """
    since: float | None = now
    if (
        before is not None
        and before.cause.is_evidence is failure.cause.is_evidence
        and before.address == failure.address
    ):
        since = now if before.since is None else before.since
    return Unreachable(member.name, since, failure.cause, failure.reason, failure.address)
