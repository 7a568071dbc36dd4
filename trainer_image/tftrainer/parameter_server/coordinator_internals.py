"""The parts of TensorFlow's ClusterCoordinator that have no public interface, all in one place."""

import queue

from tftrainer import tf_types


def queue_depth(coordinator: tf_types.Coordinator) -> int:
    """Return how many functions are scheduled and not begun."""
    return int(coordinator._cluster.closure_queue._queue.qsize())  # noqa: SLF001 -- no other way


def reset_transient_failures(coordinator: tf_types.Coordinator) -> None:
    """Forget which calls of workers did not reach a ps; call it when a ps has answered.

    In all its life a coordinator forgives each ps two of them: enough for one that is gone, where
    they come together, and too few for a long training.
    """
    cluster = coordinator._cluster  # noqa: SLF001 -- no other way
    with cluster._potential_ps_failures_lock:  # noqa: SLF001
        counts = cluster._potential_ps_failures_count  # noqa: SLF001
        counts[:] = [0] * len(counts)


def drop_queued(coordinator: tf_types.Coordinator) -> None:
    """Cancel the functions that are scheduled and not begun, such as those of a worker that ended.

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
