"""Makes the user's model ready to train: compiled, and with every variable in existence.

Variables have to exist before the first step, because a worker cannot create one in the middle of
a scheduled function, and before a checkpoint is restored, so that a misfit is seen at once.
"""

import logging

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError
from tftrainer.task import UserTask

_LOG = logging.getLogger(__name__)
_DEFAULT_OPTIMIZER = "adam"


def build(task: UserTask, context: Context, dataset: tf_types.Dataset) -> tf_types.Model:
    """Build the model for what the dataset holds; call it in the strategy's scope."""
    model = task.model(context)
    _compile(task, model)
    try:
        _create_variables(model, dataset)
    except (ValueError, TypeError, tf.errors.InvalidArgumentError) as error:
        raise BadConfigurationError(
            f"the model of {task.name} cannot take what its dataset gives "
            f"({_describe(dataset.element_spec)}): {error}"
        ) from error
    _LOG.info(
        "model %s: %d parameters, optimizer %s, batches of %s",
        model.name,
        model.count_params(),
        type(model.optimizer).__name__,
        _describe(dataset.element_spec),
    )
    return model


def total_steps(
    task: UserTask, dataset: tf_types.Dataset, epochs: int, steps_per_epoch: int | None
) -> int:
    """How many batches all workers together have to train on."""
    length = steps_per_epoch or int(dataset.cardinality())
    if length > 0:
        return epochs * length
    if length == 0:
        raise BadConfigurationError(f'dataset("train", context) of {task.name} is empty.')
    raise BadConfigurationError(
        f'dataset("train", context) of {task.name} has no known length; say with '
        "--steps-per-epoch how many batches make an epoch."
    )


def metrics(model: tf_types.Model) -> dict[str, float]:
    """Return the means since the metrics were last reset."""
    values = {name: tf.convert_to_tensor(v) for name, v in model.get_metrics_result().items()}
    return {name: float(value) for name, value in values.items() if value.shape.rank == 0}


def _compile(task: UserTask, model: tf_types.Model) -> None:
    if getattr(model, "optimizer", None) is not None:
        return
    loss, optimizer = task.optional("loss"), task.optional("optimizer")
    if loss is None:
        raise BadConfigurationError(
            f"model() of {task.name} returned a model that is not compiled, and there is no `loss` "
            'in the module. Either call model.compile(optimizer="adam", loss=..., '
            "metrics=[...]) in model(), or define `loss` (and, if wanted, `optimizer`)."
        )
    # An optimizer object made at import would belong to no strategy, so a function makes it.
    made = optimizer() if callable(optimizer) else optimizer
    model.compile(optimizer=made or _DEFAULT_OPTIMIZER, loss=loss)


def _create_variables(model: tf_types.Model, dataset: tf_types.Dataset) -> None:
    features, labels = _example(dataset)[:2]
    outputs = model(features, training=False)
    if model.compiled_loss is not None and not model.compiled_loss.built:
        model.compiled_loss.build(outputs)
    if model.compiled_metrics is not None and not model.compiled_metrics.built:
        model.compiled_metrics.build(outputs, labels)
    if hasattr(model.optimizer, "build"):
        model.optimizer.build(model.trainable_variables)
    else:
        model.optimizer._create_all_weights(model.trainable_variables)  # noqa: SLF001 -- no other


def _example(dataset: tf_types.Dataset) -> tf_types.Tensor:
    """Make a batch of the right form: of zeros where possible, since data may be far or slow."""
    flat = tf.nest.flatten(dataset.element_spec)
    if all(isinstance(s, tf.TensorSpec) and s.shape.rank is not None for s in flat):
        return tf.nest.map_structure(
            lambda s: tf.zeros([size or 1 for size in s.shape], s.dtype), dataset.element_spec
        )
    return next(iter(dataset))


def _describe(spec: tf_types.TensorSpec) -> str:
    return ", ".join(_describe_one(each) for each in tf.nest.flatten(spec))


def _describe_one(spec: tf_types.TensorSpec) -> str:
    if not isinstance(spec, tf.TensorSpec):
        return str(spec)
    return f"{spec.dtype.name}{'' if spec.shape.rank is None else list(spec.shape)}"
