"""How many batches the user's dataset has, in an epoch and in a pass."""

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.data.position import Length
from tftrainer.errors import BadConfigurationError
from tftrainer.user.task import UserTask


def measured(
    task: UserTask, context: Context, dataset: tf_types.Dataset, steps_per_epoch: int | None
) -> Length:
    """Return how many batches an epoch and a pass over the data have."""
    name = f'dataset("train", context) of {task.name}'
    batches = int(dataset.cardinality())
    is_endless = batches == tf.data.INFINITE_CARDINALITY
    if batches < 0 and steps_per_epoch is None:
        raise BadConfigurationError(f"{name} has no known length; set --steps-per-epoch.")
    if batches == 0 or (batches < 0 and not is_endless and not _has_any(dataset)):
        raise BadConfigurationError(
            f"{name} is empty: it has no examples, or a filter drops all of them."
        )
    return Length(
        batch_size=context.batch_size,
        of_epoch=steps_per_epoch or batches,
        of_pass=batches if batches > 0 else None,
        is_endless=is_endless,
    )


def _has_any(dataset: tf_types.Dataset) -> bool:
    return any(True for _ in dataset.take(1))
