"""Evaluates a dataset by the task's test_step, or as the model's evaluate does.

Called by evaluator and validation, which restore the checkpoints.
"""

import functools
import logging
from collections.abc import Sequence

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError
from tftrainer.user import model
from tftrainer.user.overriding import override
from tftrainer.user.task import UserTask

_LOG = logging.getLogger(__name__)
_LOSS = "loss"


def dataset(task: UserTask, split: str, context: Context) -> tf_types.Dataset:
    """Return the data to evaluate; raises BadConfigurationError if it has no end, or no batch."""
    made = task.dataset(split, context)
    name = f'dataset("{split}", context) of {task.name}'
    batches = int(made.cardinality())
    if batches == tf.data.INFINITE_CARDINALITY:
        raise BadConfigurationError(f"{name} is infinite; remove repeat().")
    if batches == 0:
        raise BadConfigurationError(
            f"{name} is empty: it has no examples, or fewer than a batch and drop_remainder=True."
        )
    return made


class Evaluation:
    """Evaluates one model on one dataset, again and again."""

    def __init__(self, task: UserTask, built: tf_types.Model, dataset: tf_types.Dataset) -> None:
        """Raise BadConfigurationError for a test_step that cannot work, or one that is missing."""
        has_step = task.test_step is not None or model.has_own(built, "test_step")
        if not has_step and not model.is_called(task, built):
            raise BadConfigurationError(
                f"the model of {task.name} has no call(), by which it could be evaluated: define "
                "test_step(model, batch)."
            )
        self._name = task.name
        self._model = built
        self._dataset = dataset
        self._own: frozenset[str] | None = None
        if task.test_step is not None:
            step = functools.partial(task.test_step, built)
            says = f"test_step(model, batch) of {task.name}"
            step, self._own = model.with_means(built, step, says, dataset.element_spec)
            _replace_test_step(built, step)
        self._without_loss = task.test_step is None and _has_no_loss(task, built)
        if self._without_loss:
            _LOG.warning(
                "no loss is evaluated: the model of %s is compiled without one, and its "
                "train_step is for training only. Define test_step(model, batch)",
                task.name,
            )

    def metrics(self, callbacks: Sequence[tf_types.Callback] = ()) -> dict[str, float]:
        """Return the metrics over the whole dataset, with the weights as they are now.

        Raises BadConfigurationError if there is nothing in it.
        """
        values = self._model.evaluate(
            self._dataset, verbose=0, return_dict=True, callbacks=list(callbacks)
        )
        # Keras has no public word for it. The means of a step are 0 then.
        if not values and int(self._model._test_counter) == 0:  # noqa: SLF001
            raise BadConfigurationError(
                f"the evaluation data of {self._name} is empty: it has no examples, or a filter "
                "drops all of them."
            )
        if self._own is not None:
            # Of the model's own metrics, those that the step leaves alone are 0.
            means = model.metrics(self._model)
            return {name: means[name] for name in self._own}
        if self._without_loss:
            values.pop(_LOSS, None)
        return model.numbers(values)


def _replace_test_step(built: tf_types.Model, step: tf_types.Function) -> None:
    """Have evaluate make the step, which itself finds the model's own: it may extend that."""
    own = built.test_step

    def replaced(batch: tf_types.Tensor) -> tf_types.Tensor:
        override(built, "test_step", own)
        try:
            return step(batch)
        finally:
            override(built, "test_step", replaced)

    override(built, "test_step", replaced)


def _has_no_loss(task: UserTask, built: tf_types.Model) -> bool:
    """Whether the loss that Keras shows is the 0 of a model that has none."""
    computes_loss = model.has_own(built, "test_step") or model.has_own(built, "compute_loss")
    needs_none = model.steps_itself(task, built)
    return needs_none and not computes_loss and not built.loss and not built.losses
