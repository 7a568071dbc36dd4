"""What TensorFlow's ClusterCoordinator does not tell in public, all in one place."""

from tftrainer import tf_types


def queue_depth(coordinator: tf_types.Coordinator) -> int:
    """Return how many functions are scheduled and not begun."""
    return int(coordinator._cluster.closure_queue._queue.qsize())  # noqa: SLF001 -- no other way


def forgive(coordinator: tf_types.Coordinator) -> None:
    """Forget which calls of workers did not reach a ps; call it when a ps has answered.

    In all its life a coordinator forgives each ps two of them: enough for one that is gone, where
    they come together, and too few for a long training.
    """
    cluster = coordinator._cluster  # noqa: SLF001 -- no other way
    with cluster._potential_ps_failures_lock:  # noqa: SLF001
        counts = cluster._potential_ps_failures_count  # noqa: SLF001
        counts[:] = [0] * len(counts)
