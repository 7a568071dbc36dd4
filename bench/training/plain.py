"""One process that trains a task without the trainer, as well as plain tf_keras can.

Run by the trainer's Python. `plain.py speed TASK BATCH` trains for ever and prints, about twice a
second, how many examples it has trained on. `plain.py accuracy TASK BATCH EPOCHS SEED...` prints
the accuracy on the held-out examples, one line a seed.
"""

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf
from tftrainer import Context

_CALL_SECONDS = 0.5


def speed(task: ModuleType, batch: int) -> None:
    """Train for ever; tell after each call the examples trained on so far."""
    model, call = task.model(), 1
    step = _several(model)
    iterator = iter(task.dataset("train", Context(batch)).repeat().prefetch(tf.data.AUTOTUNE))
    step(iterator, tf.constant(1, tf.int64))
    done = 0
    while True:
        began = time.monotonic()
        step(iterator, tf.constant(call, tf.int64))
        done += call
        print(done * batch, flush=True)
        call = max(1, min(4 * call, round(call * _CALL_SECONDS / (time.monotonic() - began))))


def accuracy(task: ModuleType, batch: int, epochs: int, seeds: list[int]) -> None:
    """Train and evaluate once for each seed."""
    for seed in seeds:
        tf.keras.utils.set_random_seed(seed)
        model = task.model()
        model.fit(
            task.dataset("train", Context(batch, seed)),
            epochs=epochs,
            verbose=0,
        )
        found = model.evaluate(
            task.dataset("evaluation", Context(batch)), verbose=0, return_dict=True
        )
        print(found["accuracy"], flush=True)


def _several(model: tf.keras.Model) -> Callable[[Iterator[Any], tf.Tensor], None]:
    @tf.function
    def several(iterator: Iterator[Any], steps: tf.Tensor) -> None:
        for _ in tf.range(steps):
            model.train_step(next(iterator))

    steps: Callable[[Iterator[Any], tf.Tensor], None] = several
    return steps


def _load(path: Path) -> ModuleType:
    # A script's folder is where its modules are.
    sys.path.insert(0, str(path.parent))
    return importlib.import_module(path.stem)


if __name__ == "__main__":
    what, path, size, *rest = sys.argv[1:]
    if what == "speed":
        speed(_load(Path(path)), int(size))
    else:
        accuracy(_load(Path(path)), int(size), int(rest[0]), [int(seed) for seed in rest[1:]])
