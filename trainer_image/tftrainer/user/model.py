"""Prepares the user's model for training: compiled, with all variables created.

Variables have to exist before the first step, because a worker cannot create one in the middle of
a scheduled function, and before a checkpoint is restored, so that a mismatch is found at once.
Called by the training loops, the evaluator and the export.
"""

import functools
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

import numpy as np
import tensorflow as tf

from tftrainer import tf_types
from tftrainer.context import Context
from tftrainer.errors import BadConfigurationError, TrainerError
from tftrainer.peering.peer_errors import lost_peer_error
from tftrainer.runtime.exception_text import summary
from tftrainer.runtime.outages import is_outage
from tftrainer.user import layers
from tftrainer.user.automatic_names import as_in_first_build
from tftrainer.user.overriding import override
from tftrainer.user.task import UserTask, kind

_LOG = logging.getLogger(__name__)
_DEFAULT_OPTIMIZER = "adam"


def build(task: UserTask, context: Context, dataset: tf_types.Dataset) -> tf_types.Model:
    """Build the model for what the dataset holds; call it in the strategy's scope.

    Each further one has the names of the first, also where Keras makes them up.
    """
    with as_in_first_build(task.module):
        return _build(task, context, dataset)


def _build(task: UserTask, context: Context, dataset: tf_types.Dataset) -> tf_types.Model:
    with _half_precision_explained():
        model = task.model(context)
        _compile(task, model)
    _refuse_averages(task, model.optimizer)
    _refuse_single_examples(task, dataset.element_spec)
    given = f"batches of ({_describe(dataset.element_spec)})"
    try:
        _try(task, model, dataset, given)
    except BadConfigurationError as error:
        # Nobody has these values: the model may take no others than those of the data, such as
        # words that are all known.
        if not isinstance(error.__cause__, tf.errors.InvalidArgumentError):
            raise
        _try(task, model, dataset, given, by_shapes_alone=True)
    _LOG.info(
        "model %s: %d parameters, optimizer %s, %s",
        model.name,
        model.count_params(),
        type(model.optimizer).__name__,
        given,
    )
    return model


def _try(
    task: UserTask,
    model: tf_types.Model,
    dataset: tf_types.Dataset,
    given: str,
    *,
    by_shapes_alone: bool = False,
) -> None:
    """Create all variables by an example; raise BadConfigurationError if model or loss fail."""
    with _example(task, dataset, by_shapes_alone=by_shapes_alone) as example:
        with _explained(f"the model of {task.name} cannot take what its dataset gives, {given}"):
            outputs = _create_variables(task, model, example)
        if not steps_itself(task, model):
            with _explained(
                f"loss and metrics of the model of {task.name} cannot take its outputs "
                f"({_describe(outputs)}) and what its dataset gives, {given}"
            ):
                _try_loss(model, example, outputs)


def step_function(
    task: UserTask, model: tf_types.Model, dataset: tf_types.Dataset
) -> tf_types.Function:
    """Return the function (batch) -> dict of metrics that makes one step on one replica.

    It is the module's train_step if there is one, else the model's. One that the user wrote is
    traced here, so that what cannot work is said before training begins. Call it in the strategy's
    scope, once a model.
    """
    own = task.train_step
    if not steps_itself(task, model):
        return model.train_step
    step = model.train_step if own is None else functools.partial(own, model)
    says = f"train_step({'batch' if own is None else 'model, batch'}) of {task.name}"
    return with_means(model, step, says, dataset.element_spec)[0]


def with_means(
    model: tf_types.Model, step: tf_types.Function, says: str, spec: tf_types.TensorSpec
) -> tuple[tf_types.Function, frozenset[str]]:
    """Trace a step that the user wrote; keep means of what it returns, and say their names.

    What is a metric of the model counts as it is updated.
    """
    # Not all who trace it convert what they call: Keras's fit and evaluate do not.
    step = converted(step)
    with _explained(f"{says} fails with batches of ({_describe(spec)})"):
        names = _try_step(says, step, spec)
    known = {metric.name for metric in model.metrics}
    means = {name: tf.keras.metrics.Mean(name=name) for name in names if name not in known}
    # Keras has no public call that adds a metric after compile(). Here it shows the metric and
    # resets it, and does not save it.
    model._metrics.extend(means.values())  # noqa: SLF001
    _show_hidden(model, means)
    return (_averaging(step, means) if means else step), names


def _show_hidden(model: tf_types.Model, means: Mapping[str, tf_types.Metric]) -> None:
    """Have those shown and reset that are not among `metrics`, which the model's class may say."""
    shown = {id(metric) for metric in model.metrics}
    hidden = {name: mean for name, mean in means.items() if id(mean) not in shown}
    if not hidden:
        return
    results, reset = model.get_metrics_result, model.reset_metrics

    def get_metrics_result() -> dict[str, tf_types.Tensor]:
        return {**results(), **{name: mean.result() for name, mean in hidden.items()}}

    def reset_metrics() -> None:
        reset()
        for mean in hidden.values():
            mean.reset_state()

    override(model, "get_metrics_result", get_metrics_result)
    override(model, "reset_metrics", reset_metrics)


def compiled(model: tf_types.Model, step: tf_types.Function) -> tf_types.Function:
    """Return the step as compile() wants it run: by XLA, if it can be here; say what cannot be.

    XLA compiles what runs on one device: neither variables on a ps nor sums over replicas.
    """
    if model.run_eagerly:
        _LOG.warning("run_eagerly of compile() is ignored: steps always run as a graph")
        model.run_eagerly = None
    if not model.jit_compile:
        return step
    strategy = tf.distribute.get_strategy()
    alone = strategy.num_replicas_in_sync == 1
    if alone and not isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return tf.function(step, jit_compile=True, reduce_retracing=True)
    _LOG.warning(
        "jit_compile of compile() is ignored: XLA cannot compile a step on parameter servers or of "
        "several replicas"
    )
    # Nor has fit to try.
    model.jit_compile = False
    return step


def metrics(model: tf_types.Model) -> dict[str, float]:
    """Return the means since the metrics were last reset."""
    values = {name: tf.convert_to_tensor(v) for name, v in model.get_metrics_result().items()}
    return numbers(values)


def numbers(values: Mapping[str, tf_types.Tensor]) -> dict[str, float]:
    """Return the metrics that are one number; log once which are several, as one for each class."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    found = {name: float(array.item()) for name, array in arrays.items() if array.size == 1}
    _log_left_out(tuple(sorted(values.keys() - found.keys())))
    return found


@functools.cache
def _log_left_out(names: tuple[str, ...]) -> None:
    if names:
        _LOG.warning(
            "metrics that have several values are not reported: %s. For F1Score and similar, set "
            'average, such as average="macro"',
            ", ".join(names),
        )


def all_metrics(model: tf_types.Model) -> list[tf_types.Metric]:
    """Return its metrics, those too that the trainer has added; none of what is no Keras model."""
    # A class that says itself which it has leaves out what the trainer has added.
    found = [*getattr(model, "metrics", []), *getattr(model, "_metrics", [])]
    return list({id(each): each for each in found}.values())


def _compile(task: UserTask, model: tf_types.Model) -> None:
    if getattr(model, "optimizer", None) is not None:
        return
    loss, optimizer = task.optional("loss"), task.optional("optimizer")
    if loss is None and task.train_step is None:
        raise BadConfigurationError(
            f"model() of {task.name} returned a model that is not compiled, and there is no `loss` "
            'in the module. Either call model.compile(optimizer="adam", loss=..., '
            "metrics=[...]) in model(), or define `loss` (and, if wanted, `optimizer`)."
        )
    # An optimizer object made at import would belong to no strategy, so a function makes it.
    made = optimizer() if callable(optimizer) else optimizer
    with _explained(f"`loss` and `optimizer` of {task.name} cannot be compiled"):
        model.compile(optimizer=made or _DEFAULT_OPTIMIZER, loss=loss)


def _create_variables(
    task: UserTask, model: tf_types.Model, example: tf_types.Tensor
) -> tf_types.Tensor:
    """Create them all; return what the model makes of the example, if anything."""
    outputs = None
    if is_called(task, model):
        outputs = _called(task, model, example)
    else:
        # Its parts have their variables, or get them when its step is traced.
        model.built = True
    # So do several optimizers: the step alone knows which is for what.
    if not isinstance(model.optimizer, list | tuple):
        _build_optimizer(model)
    return outputs


def is_called(task: UserTask, model: tf_types.Model) -> bool:
    """Whether the model itself computes something, rather than its step with its parts alone."""
    return has_own(model, "call") or not steps_itself(task, model)


def _called(task: UserTask, model: tf_types.Model, example: tf_types.Tensor) -> tf_types.Tensor:
    features, labels = example[:2]
    outputs = model(features, training=False)
    _build_what_only_training_calls(task, model, features)
    # A loss that the model was not given would be shown as 0.
    if getattr(model, "loss", None) and not model.compiled_loss.built:
        model.compiled_loss.build(outputs)
    if model.compiled_metrics is not None and not model.compiled_metrics.built:
        _build_metrics(task, model, outputs, labels)
    return outputs


def _build_optimizer(model: tf_types.Model) -> None:
    with tf.init_scope(), _slots_made():
        if hasattr(model.optimizer, "build"):
            model.optimizer.build(model.trainable_variables)
        else:
            model.optimizer._create_all_weights(  # noqa: SLF001 -- no other
                model.trainable_variables
            )


def _build_what_only_training_calls(
    task: UserTask, model: tf_types.Model, features: tf_types.Tensor
) -> None:
    """Create the variables of such layers, before the optimizer, which knows no later ones.

    Keras's fit does so in its first step.
    """
    if all(layer.built for layer in layers.all_in(model)):
        return
    # A step of the user's own may call the model otherwise; what is wrong with it, is said later.
    with suppress(Exception) if steps_itself(task, model) else nullcontext():
        trace(lambda: model(features, training=True))


@contextmanager
def _slots_made() -> Iterator[None]:
    """Have an optimizer make what its variables begin with on a ps, if they are there.

    Under ParameterServer Keras would make it here, and send it.
    """
    if isinstance(tf.distribute.get_strategy(), tf.distribute.ParameterServerStrategy):
        with tf.device("/job:ps/task:0/device:CPU:0"):
            yield
    else:
        yield


def _build_metrics(
    task: UserTask, model: tf_types.Model, outputs: tf_types.Tensor, labels: tf_types.Tensor
) -> None:
    """Build those of compile(), with labels that are a dict arranged as the outputs are."""
    try:
        labels = model.compiled_metrics._conform_to_outputs(outputs, labels)  # noqa: SLF001
    except ValueError as error:
        if steps_itself(task, model):
            # It need not give the labels to compile()'s metrics; if it does, they are built then.
            return
        names = ", ".join(map(repr, labels)) if isinstance(labels, Mapping) else _describe(labels)
        raise BadConfigurationError(
            f"the labels of the dataset of {task.name} ({names}) do not fit the outputs of its "
            f"model ({_describe(outputs)}): {summary(error)}"
        ) from error
    model.compiled_metrics.build(outputs, labels)


def steps_itself(task: UserTask, model: tf_types.Model) -> bool:
    """Whether the user wrote the step, in the task or in the model's class."""
    return task.train_step is not None or has_own(model, "train_step")


def has_own(model: tf_types.Model, method: str) -> bool:
    """Whether the user overrode a method of the model, such as train_step."""
    return getattr(type(model), method) is not getattr(tf.keras.Model, method)


def _try_loss(model: tf_types.Model, example: tf_types.Tensor, outputs: tf_types.Tensor) -> None:
    features, labels, weights = tf.keras.utils.unpack_x_y_sample_weight(example)

    def once() -> None:
        loss = model.compute_loss(features, labels, outputs, weights)
        if loss is None:
            # What layers add, they add where they are called: in training, and in each replica.
            trained = model(features, training=True)
            loss = model.compute_loss(features, labels, trained, weights)
        if loss is None:
            raise ValueError("the model was compiled without a loss; give compile() one.")
        model.compute_metrics(features, labels, outputs, weights)

    trace(once)


def _try_step(says: str, step: tf_types.Function, spec: tf_types.TensorSpec) -> frozenset[str]:
    """Trace one step; return the names of its metrics."""
    names: set[str] = set()

    def once(batch: tf_types.Tensor) -> None:
        values = step(batch)
        _check_metrics(says, values)
        names.update(values)

    trace(once, spec)
    return frozenset(names)


def _check_metrics(says: str, values: object) -> None:
    example = 'for example {"loss": loss}.'
    if not isinstance(values, Mapping):
        raise BadConfigurationError(
            f"{says} returned {kind(values)}; it must return a dict of metrics, {example}"
        )
    for name, value in values.items():
        try:
            tensor = tf.convert_to_tensor(value)
        except (TypeError, ValueError):
            tensor = None
        if not isinstance(name, str) or tensor is None or not _is_number(tensor):
            what = kind(value) if tensor is None else _describe(tensor)
            raise BadConfigurationError(
                f"{says} returned {{{name!r}: {what}}}; a metric has a name and one number, "
                f"{example}"
            )


def _is_number(tensor: tf_types.Tensor) -> bool:
    return tensor.shape.rank in (0, None) and (tensor.dtype.is_floating or tensor.dtype.is_integer)


def _averaging(step: tf_types.Function, means: Mapping[str, tf_types.Metric]) -> tf_types.Function:
    """Keep the means of what the step returns beside the model's own metrics."""

    def averaged(batch: tf_types.Tensor) -> dict[str, tf_types.Tensor]:
        values = step(batch)
        for name, mean in means.items():
            mean.update_state(values[name])
        return dict(values)

    return averaged


def trace(function: tf_types.Function, *specs: tf_types.TensorSpec) -> tf_types.Graph:
    """Trace it as a replica would run it, into a graph that nobody runs.

    A tf.function would be sent to every server of the cluster.
    """
    strategy = tf.distribute.get_strategy()
    graph = tf.__internal__.FuncGraph("tried")
    with graph.as_default():
        arguments = tf.nest.map_structure(_placeholder, specs)
        if strategy.num_replicas_in_sync > 1:
            strategy.run(function, arguments)
        else:
            # strategy.run would warn, under ParameterServer, that this is no worker. It has a
            # device, too, which layers ask for that work with other replicas.
            replica = tf.distribute.ReplicaContext(strategy, replica_id_in_sync_group=0)
            with replica, tf.device("/device:CPU:0"):
                function(*arguments)
    return graph


def converted(function: tf_types.Function) -> tf_types.Function:
    """With AutoGraph, as in a tf.function."""
    return tf.__internal__.autograph.tf_convert(
        function, tf.__internal__.autograph.control_status_ctx()
    )


def _placeholder(spec: tf_types.TensorSpec) -> tf_types.Tensor:
    components = [
        tf.compat.v1.placeholder(each.dtype, each.shape)
        for each in tf.nest.flatten(spec, expand_composites=True)
    ]
    return tf.nest.pack_sequence_as(spec, components, expand_composites=True)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn an error of the user's code into one that says what was tried; an outage is none."""
    try:
        yield
    except TrainerError:
        raise
    except Exception as error:
        if lost_peer_error(error) is not None or is_outage(error):
            raise
        raise BadConfigurationError(f"{what}: {summary(error)}") from error


@contextmanager
def _half_precision_explained() -> Iterator[None]:
    """Say what can be used instead of mixed_float16, which Keras refuses on parameter servers."""
    try:
        yield
    except BadConfigurationError as error:
        on_ps = isinstance(tf.distribute.get_strategy(), tf.distribute.ParameterServerStrategy)
        if not on_ps or tf.keras.mixed_precision.global_policy().name != "mixed_float16":
            raise
        raise BadConfigurationError(
            f"{error} Under strategy ParameterServer, use mixed_bfloat16, which scales no loss; "
            "mixed_float16 works with Mirrored and MultiWorkerMirrored."
        ) from error


def _refuse_averages(task: UserTask, optimizer: tf_types.Optimizer) -> None:
    """Refuse what Keras itself does at the end of fit alone, which is no end for a trainer."""
    # Mixed precision wraps it; a model may have several.
    inner = [getattr(each, "inner_optimizer", each) for each in tf.nest.flatten(optimizer)]
    if any(getattr(each, "use_ema", False) for each in inner):
        raise BadConfigurationError(
            f"the optimizer of {task.name} has use_ema=True, which is not supported: the model "
            "would be saved, validated and exported without its averaged weights. Remove "
            "use_ema=True; for a steadier model, lower the learning rate towards the end, or use "
            "--keep-best."
        )


def _refuse_single_examples(task: UserTask, spec: tf_types.TensorSpec) -> None:
    """Tell examples from batches where the shapes do: a batch has one known size, or none."""
    shapes = [s.shape for s in tf.nest.flatten(spec) if isinstance(s, tf.TensorSpec)]
    known = [shape for shape in shapes if shape.rank is not None]
    sizes = {shape[0] for shape in known if shape.rank} - {None}
    if len(sizes) > 1 or any(shape.rank == 0 for shape in known):
        raise BadConfigurationError(
            f"the dataset of {task.name} gives single examples ({_describe(spec)}), or features "
            "and labels of different numbers. End it with .batch(context.batch_size)."
        )


@contextmanager
def _example(
    task: UserTask, dataset: tf_types.Dataset, *, by_shapes_alone: bool = False
) -> Iterator[tf_types.Tensor]:
    """Make a batch of the right form; without data where possible, which may be far or slow.

    It is of zeros where the batch alone has no known size. A size that were made up might be one
    that the model cannot take, such as a text shorter than a convolution: where other sizes are
    unknown, the model is traced without them, as in training. So it is `by_shapes_alone`, and where
    variables are partitioned: a lookup that is not traced reads the whole table. Only where not
    even the number of axes is known, a batch is read.
    """
    spec = dataset.element_spec
    flat = tf.nest.flatten(spec)
    if not all(isinstance(s, tf.TensorSpec) and s.shape.rank is not None for s in flat):
        with _explained(f"the first batch of the dataset of {task.name} cannot be read"):
            batch = next(iter(dataset))
        yield batch
    elif not (
        by_shapes_alone
        or _has_partitions()
        or any(not s.shape[1:].is_fully_defined() for s in flat)
    ):
        yield tf.nest.map_structure(
            lambda s: tf.zeros([s.shape[0] or 1, *s.shape[1:]], s.dtype), spec
        )
    else:
        with tf.__internal__.FuncGraph("example").as_default():
            yield tf.nest.map_structure(_placeholder, spec)


def _has_partitions() -> bool:
    """Whether variables are partitioned over several ps."""
    extended = tf.distribute.get_strategy().extended
    return getattr(extended, "_variable_partitioner", None) is not None


def _describe(values: tf_types.TensorSpec) -> str:
    """Say types and shapes of tensors, or of their specs: `float32[None, 2], int64[None]`."""
    return ", ".join(_describe_one(each) for each in tf.nest.flatten(values))


def _describe_one(value: tf_types.TensorSpec) -> str:
    if not isinstance(value, tf.TensorSpec | tf.Tensor):
        return str(value)
    return f"{value.dtype.name}{'' if value.shape.rank is None else list(value.shape)}"
