"""What TensorFlow's ClusterCoordinator does not tell in public, all in one place."""

from tftrainer import tf_types


def queue_depth(coordinator: tf_types.Coordinator) -> int:
    """Return how many functions are scheduled and not begun."""
    return int(coordinator._cluster.closure_queue._queue.qsize())  # noqa: SLF001 -- no other way
