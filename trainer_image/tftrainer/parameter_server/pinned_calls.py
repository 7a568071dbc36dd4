"""Runs functions on a chosen worker, which ClusterCoordinator.schedule cannot; used by synchronous.

TensorFlow creates per-worker datasets with such calls, and repeats them when a worker rejoins, but
has no public interface for them. The private parts are kept here.

A call is a Python function that the worker's thread in this process runs, with that worker as the
device. Its values are fetched in that thread, so that a hung worker blocks no other.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

import tensorflow as tf

from tftrainer import tf_types

_CHIEF = "/job:chief/replica:0/task:0/device:CPU:0"


class State(Enum):
    """How far a call is."""

    RUNNING = auto()
    DONE = auto()
    AWAY = auto()
    """The worker was lost in the middle of it; the call is made again when it is back."""


class PinnedCall:
    """One call on one worker, and the value that it returned."""

    def __init__(self, remote: tf_types.RemoteValue, returned: list[Any]) -> None:
        self._remote = remote
        self._returned = returned

    @property
    def state(self) -> State:
        """How far it is."""
        name = self._remote._status.name  # noqa: SLF001 -- no other way to ask without waiting
        known = {"NOT_READY": State.RUNNING, "READY": State.DONE, "ABORTED": State.AWAY}
        return known[name]

    def wait(self, seconds: float) -> None:
        """Wait until it is no more RUNNING, but not for longer than this."""
        self._remote._status_available_event.wait(seconds)  # noqa: SLF001 -- fetch has no limit

    def value(self) -> Any:  # noqa: ANN401 -- whatever the function returned
        """Return what a call that is DONE returned; raises what it raised."""
        self._remote.fetch()
        return self._returned[-1]


class PinnedWorker:
    """One worker, which is given calls."""

    def __init__(self, coordinator: tf_types.Coordinator, number: int) -> None:
        self._worker = coordinator._cluster.workers[number]  # noqa: SLF001 -- see above

    def call(self, function: tf_types.Function, *arguments: Any) -> PinnedCall:  # noqa: ANN401
        """Have it call the function; of a per-worker value it is handed its own."""
        returned: list[Any] = []

        def on_worker(*given: Any) -> None:  # noqa: ANN401
            returned[:] = [function(*given)]

        call = PinnedCall(self._worker.create_resource(on_worker, args=arguments), returned)
        # TensorFlow remembers each for as long as it runs, to make those again that are in use.
        with self._worker._resource_tracking_lock:  # noqa: SLF001
            known = self._worker._resource_remote_value_refs  # noqa: SLF001
            known[:] = [reference for reference in known if reference() is not None]
        return call


def fetched(values: tf_types.Tensor) -> tf_types.Tensor:
    """Bring what a worker computed to the chief; in a pinned call."""
    with tf.device(_CHIEF):
        return tf.nest.map_structure(tf.identity, values, expand_composites=True)


def at_chief(numbers: Iterable[int | tuple[int, ...]]) -> list[tf_types.Tensor]:
    """Make arguments (int64) at the chief, that go to the worker with the call; in a pinned call.

    Each one that were made at the worker would be a call of its own.
    """
    with tf.device(_CHIEF):
        return [tf.constant(each, tf.int64) for each in numbers]
