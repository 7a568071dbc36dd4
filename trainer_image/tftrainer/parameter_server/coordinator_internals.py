"""The parts of TensorFlow's ClusterCoordinator that have no public interface, all in one place."""

import queue

from tftrainer import tf_types


def queue_depth(coordinator: tf_types.Coordinator) -> int:
    """Return the number of scheduled functions that no worker has started."""
    return int(coordinator._cluster.closure_queue._queue.qsize())  # noqa: SLF001 -- no other way


def reset_transient_failures(coordinator: tf_types.Coordinator) -> None:
    """Reset the count of transient failures between workers and ps; call it when a ps has answered.

    A coordinator tolerates only two per ps in its lifetime, which is too few for a long training.
    """
    cluster = coordinator._cluster  # noqa: SLF001 -- no other way
    with cluster._potential_ps_failures_lock:  # noqa: SLF001
        counts = cluster._potential_ps_failures_count  # noqa: SLF001
        counts[:] = [0] * len(counts)


def drop_queued(coordinator: tf_types.Coordinator) -> None:
    """Cancel scheduled functions that are not running, such as those of a worker that exited.

    Waiting for what is under way then ends, even if no worker is left.
    """
    closures = coordinator._cluster.closure_queue  # noqa: SLF001 -- no other way
    with closures._queue_lock:  # noqa: SLF001
        try:
            while True:
                closures._queue.get(block=False).mark_cancelled()  # noqa: SLF001
        except queue.Empty:
            closures._queue_free_slot_condition.notify_all()  # noqa: SLF001
        if closures.inflight_closure_count == 0:
            closures._stop_waiting_condition.notify_all()  # noqa: SLF001
