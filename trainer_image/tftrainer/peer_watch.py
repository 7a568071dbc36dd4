"""Asks every peer again and again whether it is there; says who is not, and since when.

TensorFlow waits without a limit and without a word: at the start for every server, later for one
that hangs. A few threads ask beside the training, which they never touch.
"""

import logging
import random
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock, Thread

from tftrainer.cluster import Member
from tftrainer.errors import PeersUnavailableError
from tftrainer.peers import Check
from tftrainer.progress import Progress, Unreachable
from tftrainer.supervisor import Run

_LOG = logging.getLogger(__name__)
_THREADS = 32
_TICK_SECONDS = 0.1
# Between two questions to a peer; one that comes back is to be seen at once.
_ABSENT_SECONDS = 0.5
_PRESENT_SECONDS = 2.0
_LOG_SECONDS = 10.0
_NOT_ASKED = "not asked yet"


class PeerWatch:
    """Keeps `unreachable` of the progress as it is."""

    def __init__(self, members: Iterable[Member], progress: Progress, check: Check) -> None:
        self._progress = progress
        self._check = check
        now = time.monotonic()
        self._answered_at = dict.fromkeys(members, now)
        self._reasons = dict.fromkeys(self._answered_at, _NOT_ASKED)
        # A peer that is being asked is due never.
        self._due = dict.fromkeys(self._answered_at, now)
        self._lock = Lock()
        self._ended = Event()

    def start(self) -> None:
        """Ask from now on, in threads."""
        self._publish()
        Thread(target=self._ask_all, name="peers", daemon=True).start()

    def stop(self) -> None:
        """Ask no more; forget who was absent."""
        with self._lock:
            self._ended.set()
            self._progress.update(unreachable=())

    def wait(self, run: Run, *, timeout: float) -> None:
        """Return when all are there; raises PeersUnavailableError after the timeout (seconds)."""
        start = logged_at = time.monotonic()
        logged = frozenset(self._reasons)
        while absent := dict(self._reasons):
            run.raise_if_stopped()
            now = time.monotonic()
            names = ", ".join(f"{member.name} ({reason})" for member, reason in absent.items())
            if now - start > timeout and _NOT_ASKED not in absent.values():
                raise PeersUnavailableError(
                    f"no answer within {timeout:.0f} s (--peer-timeout) from {names}."
                )
            if now - logged_at > _LOG_SECONDS or frozenset(absent) != logged:
                _LOG.info("waiting for %s (%.0f s)", names, now - start)
                logged_at, logged = now, frozenset(absent)
            run.stop.wait(_TICK_SECONDS)
        _LOG.info("all peers answer after %.0f s", time.monotonic() - start)

    def _ask_all(self) -> None:
        with ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="peer") as pool:
            while not self._ended.wait(_TICK_SECONDS):
                now = time.monotonic()
                for member in [member for member, due in self._due.items() if due <= now]:
                    self._due[member] = float("inf")
                    pool.submit(self._ask, member)

    def _ask(self, member: Member) -> None:
        try:
            reason = self._check(member)
        except Exception as error:  # noqa: BLE001 -- whatever it is, this peer is asked again
            reason = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        with self._lock:
            before = self._reasons.get(member)
            if reason is None:
                self._answered_at[member] = now
                self._reasons.pop(member, None)
            else:
                self._reasons[member] = reason
            if reason != before and not self._ended.is_set():
                self._publish()
        # Not all peers at the same moment, however many there are.
        spread = random.uniform(0.8, 1.2)  # noqa: S311 -- no secret
        self._due[member] = now + spread * (_ABSENT_SECONDS if reason else _PRESENT_SECONDS)

    def _publish(self) -> None:
        self._progress.update(
            unreachable=tuple(
                Unreachable(member.name, since, self._reasons[member])
                for member, since in self._answered_at.items()
                if member in self._reasons
            )
        )
