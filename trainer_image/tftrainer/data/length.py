"""How many batches the user's dataset has, in an epoch and in a pass."""

import queue
import threading
from typing import Any

import tensorflow as tf

# No public call tells the size of a batch, with which TensorFlow divides it among replicas.
from tensorflow.python.data.experimental.ops import distribute

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.data.position import Length
from tftrainer.errors import BadConfigurationError, NoDataError
from tftrainer.user.task import UserTask


def measured(
    task: UserTask,
    context: Context,
    dataset: tf_types.Dataset,
    steps_per_epoch: int | None,
    *,
    patience: float,
    members: int = 1,
) -> Length:
    """Return how many batches an epoch and a pass over the data have.

    `members` are the processes that split each batch. Raises NoDataError if after `patience`
    seconds it is not known whether there is any.
    """
    name = f'dataset("train", context) of {task.name}'
    _refuse_none(name, dataset)
    _refuse_hints(name, dataset)
    batches = int(dataset.cardinality())
    is_endless = batches == tf.data.INFINITE_CARDINALITY
    if batches < 0 and steps_per_epoch is None:
        raise BadConfigurationError(f"{name} has no known length; set --steps-per-epoch.")
    if batches == 0 or (batches < 0 and not _has_any(dataset, name, patience)):
        raise BadConfigurationError(
            f"{name} is empty: it has no examples, or a filter drops all of them."
            f"{_of_whole_batches(dataset)}"
        )
    off = tf.data.experimental.AutoShardPolicy.OFF
    if members > 1 and steps_per_epoch is None and _policy(dataset) is off:
        # TensorFlow splits the batches of such a dataset too, and each member uses all parts.
        raise BadConfigurationError(
            f"{name} has AutoShardPolicy.OFF: each of the {members} members takes a part of its "
            "own batches in each step, so the length of an epoch is not known; set "
            f"--steps-per-epoch: {members * batches} is a pass, if the datasets of all members are "
            "as long. Or leave AutoShardPolicy.OFF and shard() out: the trainer deals the data out."
        )
    return Length(
        batch_size=_batch_size(dataset) or context.batch_size,
        of_epoch=steps_per_epoch or batches,
        of_pass=batches if batches > 0 else None,
        is_endless=is_endless,
    )


def _batch_size(dataset: tf_types.Dataset) -> int | None:
    """Return what it batches with, which need not be what it was told; None if that is not seen."""
    try:
        found = int(distribute.compute_batch_size(dataset))
    except IndexError:
        # Of elements without axes, which are no batches yet.
        return None
    if found < 0 and type(dataset).__name__ in _KEEPING_SIZE:
        return _batch_size(dataset._input_dataset)  # noqa: SLF001 -- no other way
    return found if found > 0 else None


_KEEPING_SIZE = frozenset(
    {"_MapDataset", "_ParallelMapDataset", "_PrefetchDataset", "_OptionsDataset"}
)


def _refuse_none(name: str, dataset: tf_types.Dataset) -> None:
    """Refuse what no loop of TensorFlow's takes, though Keras's fit does."""
    of_none = type(tf.type_spec_from_value(None))
    if any(isinstance(each, of_none) for each in tf.nest.flatten(dataset.element_spec)):
        raise BadConfigurationError(
            f"{name} has None in its elements: leave weights out that there are none of, and give "
            "zeros for labels that are not used."
        )


def _of_whole_batches(dataset: tf_types.Dataset) -> str:
    """Say that a part of a batch is dropped, if it is: then all batches have one known size."""
    shapes = [spec.shape for spec in _tensors(dataset) if spec.shape.rank]
    sizes = {shape[0] for shape in shapes}
    if len(sizes) != 1 or None in sizes:
        return ""
    return (
        f" So it is where they are fewer than a batch of {sizes.pop()}, which drop_remainder=True "
        "drops: lower --batch-size, or leave drop_remainder out."
    )


def _tensors(dataset: tf_types.Dataset) -> list[tf_types.TensorSpec]:
    flat = tf.nest.flatten(dataset.element_spec)
    return [spec for spec in flat if isinstance(spec, tf.TensorSpec)]


def _refuse_hints(name: str, dataset: tf_types.Dataset) -> None:
    """Refuse what nobody can read before TensorFlow distributes it, or is not sharded by it.

    A shard(SHARD_HINT, ...) cannot be read anywhere else, and without one all members read all.
    """
    if _policy(dataset) is tf.data.experimental.AutoShardPolicy.HINT:
        raise BadConfigurationError(
            f"{name} has AutoShardPolicy.HINT, which is not supported. Remove auto_shard_policy "
            "from its options, and shard(SHARD_HINT, ...): the trainer deals the data out, each "
            "example once an epoch."
        )


def _policy(dataset: tf_types.Dataset) -> Any:  # noqa: ANN401
    return dataset.options().experimental_distribute.auto_shard_policy


def _has_any(dataset: tf_types.Dataset, name: str, patience: float) -> bool:
    """Whether it gives a batch. What repeats for ever may have nothing to repeat."""
    found: queue.SimpleQueue[bool | Exception] = queue.SimpleQueue()

    def look() -> None:
        try:
            found.put(any(True for _ in dataset.take(1)))
        except Exception as error:  # noqa: BLE001 -- raised below, where it is waited for
            found.put(error)

    # A filter behind repeat() that drops all looks for ever, and nothing can interrupt it.
    threading.Thread(target=look, name="first-batch", daemon=True).start()
    try:
        answer = found.get(timeout=patience)
    except queue.Empty:
        raise NoDataError(
            f"{name} gave no batch for {patience:.0f} s: a filter behind repeat() drops all "
            "examples, or the first batch takes longer than --first-step-seconds allows."
        ) from None
    if isinstance(answer, Exception):
        raise answer
    return answer
