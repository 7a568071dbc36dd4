"""Trains the task without the trainer, as TensorFlow's documentation has it.

Run by the trainer's Python: `plain.py one` in one process; `plain.py stock` as each process of a
cluster, by TF_CONFIG: model.fit under ParameterServerStrategy, or a server for it.
"""

import signal
import sys

import tensorflow as tf
from tftrainer import Context

from bench.recommender import clicks
from bench.recommender.sizes import BATCH, BATCHES, EPOCHS, PARTITION_BYTES
from bench.training.stock import resolved_or_serving

_PARTS = 4
"""Of an epoch, after each of which fit reports."""


def one() -> None:
    """Fit in this process."""
    model = clicks.model()
    data = clicks.dataset("train", Context(BATCH)).prefetch(tf.data.AUTOTUNE)
    model.fit(data, epochs=EPOCHS, verbose=0, callbacks=clicks.callbacks())


def stock() -> None:
    """Serve, or fit on the cluster."""
    resolver = resolved_or_serving()
    parts = len(resolver.cluster_spec().job_tasks("ps"))
    strategy = tf.distribute.ParameterServerStrategy(
        resolver,
        variable_partitioner=tf.distribute.experimental.partitioners.MinSizePartitioner(
            min_shard_bytes=PARTITION_BYTES, max_shards=parts
        ),
    )

    def read(_: tf.distribute.InputContext) -> tf.data.Dataset:
        # Each worker shuffles for itself, as in the tutorial.
        return clicks.dataset("train", Context(BATCH)).repeat().prefetch(tf.data.AUTOTUNE)

    with strategy.scope():
        model = clicks.model()
    model.fit(
        tf.keras.utils.experimental.DatasetCreator(read),
        epochs=EPOCHS * _PARTS,
        steps_per_epoch=BATCHES["train"] // _PARTS,
        verbose=0,
        callbacks=clicks.callbacks(),
    )
    # Who measures reads its memory now, and ends it; at its own end it would wait for the servers.
    sys.stdout.flush()
    signal.pause()


if __name__ == "__main__":
    {"one": one, "stock": stock}[sys.argv[1]]()
