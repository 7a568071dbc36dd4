"""The parts of TensorFlow's ClusterCoordinator that have no public interface, all in one place."""

import queue
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# Says which worker a function in a worker's thread is for.
from tensorflow.python.distribute.coordinator import coordinator_context

from tftrainer import tf_types
from tftrainer.parameter_server.pinned_calls import at_chief, fetched


def traced(
    strategy: tf_types.Strategy, function: tf_types.Function, *specs: tf_types.TensorSpec
) -> tf_types.Function:
    """Trace a tf.function as `schedule` of the coordinator would; return the concrete function."""
    with strategy.scope():
        strategy.extended._being_scheduled = True  # noqa: SLF001 -- it would warn, too
        try:
            return function.get_concrete_function(*specs)
        finally:
            strategy.extended._being_scheduled = False  # noqa: SLF001


def schedule(
    coordinator: tf_types.Coordinator,
    function: tf_types.Function,
    per_worker: tf_types.Iterator,
    *,
    given: Callable[[int], range | None],
    arguments: Callable[[range], Sequence[int | tuple[int, ...]]],
    done: Callable[[range, tf_types.Tensor], None],
    failed: Callable[[range], None],
) -> None:
    """Schedule a concrete function on any worker, with what is given to the worker that runs it.

    When a worker is about to run it, `given` is asked for the numbers that this worker shall have,
    and `arguments` for what is handed over then (int64). None: it does nothing. Then `done` is
    called with what the function returned, or `failed`; the coordinator has another worker run it
    after a loss, which is given numbers of its own.

    All three run in the worker's thread in this process, so a worker that hangs holds nobody else
    up. With the coordinator's own `schedule`, the chief would have to fetch each result in turn.
    """
    cluster = coordinator._cluster  # noqa: SLF001 -- no other way
    # As TensorFlow makes it for a tf.function: dropped where the coordinator gives up.
    cancelable = cluster.closure_queue._cancellation_mgr.get_cancelable_function(function)  # noqa: SLF001

    def on_worker(own: Any) -> None:  # noqa: ANN401
        numbers = given(coordinator_context.get_current_dispatch_context().worker_index)
        if numbers is None:
            return
        try:
            result = fetched(cancelable(own, *at_chief(arguments(numbers))))
            # Here, as it is only now that its values are waited for.
            values = tf.nest.map_structure(lambda each: each.numpy(), result)
        except BaseException:
            failed(numbers)
            raise
        done(numbers, values)

    cluster.schedule(on_worker, args=(per_worker,), kwargs=None)


def queue_depth(coordinator: tf_types.Coordinator) -> int:
    """Return the number of scheduled functions that no worker has started."""
    return int(coordinator._cluster.closure_queue._queue.qsize())  # noqa: SLF001 -- no other way


def unfinished(coordinator: tf_types.Coordinator) -> int:
    """Return the number of scheduled functions that are queued or running."""
    closures = coordinator._cluster.closure_queue  # noqa: SLF001 -- no other way
    with closures._queue_lock:  # noqa: SLF001
        return int(closures._queue.qsize() + closures.inflight_closure_count)  # noqa: SLF001


def reset_transient_failures(coordinator: tf_types.Coordinator) -> None:
    """Reset the count of transient failures between workers and ps; call it when a ps has answered.

    A coordinator tolerates only two per ps in its lifetime, which is too few for a long training.
    """
    cluster = coordinator._cluster  # noqa: SLF001 -- no other way
    with cluster._potential_ps_failures_lock:  # noqa: SLF001
        counts = cluster._potential_ps_failures_count  # noqa: SLF001
        counts[:] = [0] * len(counts)


def forgive(coordinator: tf_types.Coordinator, passes: Callable[[BaseException], bool]) -> None:
    """Have a failed function be put back, and nothing be counted, where `passes` says so.

    It is asked in the thread of the worker that ran it, which runs nothing else until it returns.
    """
    cluster = coordinator._cluster  # noqa: SLF001 -- no other way
    counts = cluster._record_and_ignore_transient_ps_failure  # noqa: SLF001

    def is_ignored(error: BaseException) -> bool:
        return passes(error) or bool(counts(error))

    cluster._record_and_ignore_transient_ps_failure = is_ignored  # noqa: SLF001


def join_by(coordinator: tf_types.Coordinator, wait: Callable[[], object]) -> None:
    """Have Keras wait for all that is scheduled by calling `wait`.

    At the end of an epoch fit joins the coordinator, which waits for a worker that hangs for ever.
    """
    coordinator.join = wait


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
