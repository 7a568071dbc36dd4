"""Tells the loss of a server from a server that cannot reach another one for a while.

Servers call each other: a ps fetches what a worker's function sends it, and has to resolve that
worker's name. After three such failures, within moments, TensorFlow counts the ps as lost. But if
the chief reaches the server that the other one does not, nothing is lost: others are given the
work, and this worker tries again after a pause. Called in the coordinator's threads.
"""

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, local

import tensorflow as tf

from tftrainer.config.cluster import Cluster, Member
from tftrainer.errors import one_line
from tftrainer.peering.peer_errors import lost_peer_error, original
from tftrainer.peering.peers import Probe

_LOG = logging.getLogger(__name__)
# A line for each call on the way, the innermost first; what servers quote has no line ends.
_CALLED = re.compile(
    r"^Additional GRPC error information from remote target /job:(\w+)/replica:0/task:(\d+)",
    re.MULTILINE,
)
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 8.0
# A link that did not fail for so long is whole again; a function takes 5 s and one step.
_WHOLE_AFTER_SECONDS = 60.0
_MOMENT_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Link:
    """The way from one server to another."""

    caller: Member
    called: Member

    def __str__(self) -> str:
        """Say that it is broken."""
        return f"{self.caller.name} cannot reach {self.called.name}"


def broken_link(error: BaseException, cluster: Cluster) -> Link | None:
    """Return which server could not reach which other one; None if the error is another one."""
    found = lost_peer_error(error)
    loss = None if found is None else original(found)
    if not isinstance(loss, tf.errors.UnavailableError):
        return None
    servers = {str(member.task): member for member in cluster.peers}
    calls = [f"{role}-{index}" for role, index in _CALLED.findall(str(loss))]
    on_the_way = [servers[name] for name in calls if name in servers]
    return next(
        (Link(each, on_the_way[0]) for each in on_the_way[1:] if each != on_the_way[0]), None
    )


class LinkWatch:
    """Has workers rest for which a link is broken, while the chief reaches the server called."""

    def __init__(
        self,
        cluster: Cluster,
        probe: Probe,
        wait: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._probe = probe
        self._wait = wait
        self._clock = clock
        self._broken: dict[Link, tuple[float, float]] = {}
        """When each failed last, and for how long its worker rested then."""
        self._lock = Lock()
        self._own = local()
        """Of each worker's thread: until when it rests."""

    def passes(self, error: BaseException) -> bool:
        """Whether an error means a broken link and no lost server; if so, this worker rests."""
        link = broken_link(error, self._cluster)
        if link is None:
            return False
        with self._lock:
            if self._probe(link.called) is not None:
                return False
            failed_at, pause = self._broken.get(link, (-math.inf, 0.0))
            now = self._clock()
            is_new = now - failed_at > _WHOLE_AFTER_SECONDS
            pause = _FIRST_PAUSE_SECONDS if is_new else min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._broken[link] = now, pause
        self._own.until = now + pause
        _LOG.warning(
            "%s, which answers the chief; trying again in %.0f s (%s)", link, pause, one_line(error)
        )
        return True

    def rests(self) -> bool:
        """Whether the worker of this thread shall do nothing yet; if so, a moment has passed.

        What it is given meanwhile it gives back, for a checkpoint waits until nobody is at work.
        """
        left = getattr(self._own, "until", -math.inf) - self._clock()
        if left <= 0:
            return False
        self._wait(min(left, _MOMENT_SECONDS))
        return True
