"""Has each device of a worker train on its own examples; used by asynchronous and chief.

A worker with several GPUs makes a step on all of them together: each is a replica, with a share of
the batch, and their gradients are applied as one. TensorFlow's own strategy.run hands a batch that
was not distributed to every replica whole.
"""

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.data.batches import examples_in

_CPU = "/device:CPU:0"


def on_shares(step: tf_types.Function, strategy: tf_types.Strategy) -> tf_types.Function:
    """Return the step (batch) as strategy.run is to run it: on the share of each replica."""
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return step

    def on_share(batch: tf_types.Tensor) -> tf_types.Tensor:
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        # Where the batch is, so that a GPU is sent its share alone.
        with tf.device(_CPU):
            mine = share(batch, tf.cast(number, tf.int64), replicas)
        return step(mine)

    return on_share


def share(batch: tf_types.Tensor, number: tf_types.Tensor, replicas: int) -> tf_types.Tensor:
    """Return the examples of one replica (int64, no axes), whose shares differ by one at most.

    A batch with fewer examples than replicas goes to each whole: its mean gradient is the same, and
    that of no examples would be NaN with many models.
    """
    examples = examples_in(batch)
    is_small = examples < replicas
    first = tf.where(is_small, tf.zeros_like(examples), examples * number // replicas)
    end = tf.where(is_small, examples, examples * (number + 1) // replicas)
    return tf.nest.map_structure(lambda part: _rows(part, first, end), batch)


def _rows(part: tf_types.Tensor, first: tf_types.Tensor, end: tf_types.Tensor) -> tf_types.Tensor:
    if not isinstance(part, tf.SparseTensor):
        return part[first:end]
    others = part.dense_shape[1:]
    begin = tf.concat([[first], tf.zeros_like(others)], axis=0)
    return tf.sparse.slice(part, begin, tf.concat([[end - first], others], axis=0))


def use_logical_cpus(strategy: tf_types.Strategy, count: int) -> None:
    """Have the logical CPUs of each worker be its replicas, as its GPUs would be.

    TensorFlow counts GPUs alone, and has no public way to say otherwise.
    """

    class _OnCpus(type(strategy.extended)):  # type: ignore[misc]
        worker_devices = tuple(f"/device:CPU:{number}" for number in range(count))

    strategy.extended.__class__ = _OnCpus
    strategy.extended._num_gpus_per_worker = count  # noqa: SLF001 -- see above
