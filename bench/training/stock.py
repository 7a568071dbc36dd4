"""Trains a task on several processes without the trainer, as TensorFlow's tutorials have it.

Run by the trainer's Python, as each process of a cluster (TF_CONFIG): `stock.py ParameterServer
TASK BATCH` fits by ParameterServerStrategy and a DatasetCreator, or serves;
`stock.py MultiWorkerMirrored TASK BATCH` fits on every member. Who fits prints, a few times a
second, how many steps have been made.
"""

import importlib
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import tensorflow as tf
from tftrainer import Context

_STEPS = 200
"""Of an epoch of fit, which ends in a round trip to everybody."""


def resolved_or_serving() -> tf.distribute.cluster_resolver.ClusterResolver:
    """Return the cluster by TF_CONFIG if this is the chief; a worker or ps serves for ever."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
            # As the tutorial has it: on one core a server would wait for itself.
            config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4),
        ).join()
    return resolver


def parameter_server(task: ModuleType, batch: int) -> None:
    """Serve, or fit for ever."""
    resolver = resolved_or_serving()
    strategy = tf.distribute.ParameterServerStrategy(resolver)

    def read(_: tf.distribute.InputContext) -> tf.data.Dataset:
        return task.dataset("train", Context(batch)).repeat().prefetch(tf.data.AUTOTUNE)

    with strategy.scope():
        model = task.model()
    _report(model)
    _fit(model, tf.keras.utils.experimental.DatasetCreator(read))


def multi_worker_mirrored(task: ModuleType, batch: int) -> None:
    """Fit for ever; the batch is of each member."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = task.model()
    _report(model)
    # Of all members together: fit gives each its part.
    data = task.dataset("train", Context(batch * strategy.num_replicas_in_sync))
    _fit(model, data.repeat())


def _fit(model: tf.keras.Model, data: object) -> None:
    model.fit(data, epochs=100_000, steps_per_epoch=_STEPS, verbose=0)


def _report(model: tf.keras.Model) -> None:
    def tell() -> None:
        while True:
            time.sleep(0.25)
            print(int(model.optimizer.iterations.numpy()), flush=True)

    threading.Thread(target=tell, daemon=True).start()


if __name__ == "__main__":
    kind, path, size = sys.argv[1:]
    # A script's folder is where its modules are.
    sys.path.insert(0, str(Path(path).parent))
    found = importlib.import_module(Path(path).stem)
    train = parameter_server if kind == "ParameterServer" else multi_worker_mirrored
    train(found, int(size))
