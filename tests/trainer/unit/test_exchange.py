"""A step on copies of the variables changes them as a step on the variables does."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from tftrainer.parameter_server.exchange import Exchange
from tftrainer.parameter_server.local_copies import held_by

CPU = "/device:CPU:0"
BATCHES = 4
OF_IMAGES = (tf.TensorSpec([None, 6, 6, 1]), tf.TensorSpec([None], tf.int64))
OF_WORDS = (tf.TensorSpec([None, 3], tf.int64), tf.TensorSpec([None], tf.int64))
RATE = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)


def images() -> tuple[tf.Tensor, tf.Tensor]:
    """Return features and labels of all batches."""
    features = tf.random.stateless_normal([BATCHES, 8, 6, 6, 1], [1, 2])
    return features, tf.cast(tf.reduce_sum(features, [2, 3, 4]) > 0, tf.int64)


def words() -> tuple[tf.Tensor, tf.Tensor]:
    features = tf.random.stateless_uniform([BATCHES, 8, 3], [1, 2], maxval=9, dtype=tf.int64)
    return features, features[:, :, 0] % 2


def network(optimizer: object = "adam") -> tf.keras.Model:
    layers = tf.keras.layers
    return compiled(
        optimizer,
        layers.Input((6, 6, 1)),
        layers.Conv2D(3, 3),
        layers.BatchNormalization(),
        layers.Flatten(),
        layers.Dense(2, kernel_regularizer="l2"),
    )


def with_table(optimizer: object = "adam") -> tf.keras.Model:
    """A model whose table is too large to be copied, if every word had a row; few are looked up."""
    layers = tf.keras.layers
    return compiled(
        optimizer,
        layers.Input((3,), dtype=tf.int64),
        layers.Embedding(70_000, 4),
        layers.Flatten(),
        layers.Dense(2),
    )


def compiled(optimizer: object, *layers: tf.keras.layers.Layer) -> tf.keras.Model:
    tf.keras.utils.set_random_seed(3)
    made = tf.keras.Sequential(layers)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer, loss, ["accuracy"])
    if hasattr(made.optimizer, "build"):
        made.optimizer.build(made.trainable_variables)
    else:
        made.optimizer._create_all_weights(made.trainable_variables)
    made.compiled_loss.build(tf.zeros([8, 2]))
    made.compiled_metrics.build(tf.zeros([8, 2]), tf.zeros([8], tf.int64))
    return made


def state(model: tf.keras.Model) -> list[np.ndarray]:
    """Return the values of weights, optimizer and metrics."""
    metrics = itertools.chain(*[metric.variables for metric in model.metrics])
    return [each.numpy() for each in [*model.variables, *held_by(model.optimizer), *metrics]]


def train(
    model: tf.keras.Model,
    data: tuple[tf.Tensor, tf.Tensor],
    step: tf.Variable,
    exchange: Exchange | None,
) -> Callable[[tf.Variable], set[str]]:
    """Make a step on each batch, in a loop of one function.

    Returns what tells the types of the operations in it on a variable itself, and not on a copy.
    """
    features, labels = data

    @tf.function
    def steps() -> None:
        make = exchange.begin(CPU) if exchange is not None else None
        for number in tf.range(BATCHES):
            batch = (features[number], labels[number])
            if make is not None:
                make(batch)
            else:
                model.train_step(batch)
                step.assign_add(1)

    graph = steps.get_concrete_function().graph
    steps()

    def types(tensor: tf.Tensor) -> set[str]:
        return set().union(*(of_operation(op, tensor) for op in tensor.consumers()))

    def of_operation(op: tf.Operation, tensor: tf.Tensor) -> set[str]:
        """Return the type of an operation, or of those in the function that it calls with this."""
        name = {"While": "body", "StatefulPartitionedCall": "f"}.get(op.type)
        if name is None:
            return {op.type}
        inputs = graph._get_function(op.get_attr(name).name).graph.inputs
        return types(inputs[[each is tensor for each in op.inputs].index(True)])

    return lambda variable: types(graph.capture(variable.handle))


@pytest.mark.parametrize("has_one_ps", [True, False])
@pytest.mark.parametrize(
    ("made", "data", "spec"),
    [
        pytest.param(network, images, OF_IMAGES, id="adam"),
        pytest.param(
            lambda: network(tf.keras.optimizers.Adam(RATE)), images, OF_IMAGES, id="schedule"
        ),
        pytest.param(
            lambda: network(tf.keras.optimizers.AdamW(0.1, weight_decay=0.1)),
            images,
            OF_IMAGES,
            id="weight decay",
        ),
        pytest.param(
            lambda: network(tf.keras.optimizers.SGD(0.1, 0.9, global_clipnorm=0.1)),
            images,
            OF_IMAGES,
            id="clipped",
        ),
        pytest.param(
            lambda: network(tf.keras.optimizers.legacy.Adam(0.1)), images, OF_IMAGES, id="legacy"
        ),
        pytest.param(with_table, words, OF_WORDS, id="table"),
        pytest.param(
            lambda: with_table(tf.keras.optimizers.Adagrad(0.1, clipnorm=0.1)),
            words,
            OF_WORDS,
            id="clipped table",
        ),
    ],
)
def test_all_is_changed_as_by_steps_on_the_variables(
    made: Callable[[], tf.keras.Model],
    data: Callable[[], tuple[tf.Tensor, tf.Tensor]],
    spec: tuple[tf.TensorSpec, tf.TensorSpec],
    *,
    has_one_ps: bool,
) -> None:
    one, other = made(), made()
    steps = [tf.Variable(0, dtype=tf.int64) for _ in range(2)]
    exchange = Exchange.of(one, one.train_step, steps[0], spec)
    assert exchange is not None
    if not has_one_ps:
        exchange.ps = None
    before = state(one)

    train(one, data(), steps[0], exchange)
    train(other, data(), steps[1], None)

    assert [int(each) for each in steps] == [BATCHES, BATCHES]
    assert any(np.any(now != then) for now, then in zip(state(one), before, strict=True))
    for found, wanted in zip(state(one), state(other), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_large_table_is_never_read_whole() -> None:
    model, step = with_table(tf.keras.optimizers.SGD(0.1)), tf.Variable(0, dtype=tf.int64)
    exchange = Exchange.of(model, model.train_step, step, OF_WORDS)

    uses = train(model, words(), step, exchange)

    table, kernel, _ = model.trainable_variables
    assert "ReadVariableOp" in uses(kernel)
    assert "ResourceGather" in uses(table)
    assert "ReadVariableOp" not in uses(table)


def twice(model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    model.train_step(batch)
    return model.train_step(batch)


def in_a_branch(model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    return tf.cond(
        model.optimizer.iterations % 2 == 0,
        lambda: dict(model.train_step(batch)),
        lambda: dict(model.test_step(batch)),
    )


def applied_in_a_branch(
    model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """As where a step is left out whose loss is no number."""
    features, labels = batch
    with tf.GradientTape() as tape:
        loss = model.compute_loss(features, labels, model(features, training=True))
    found = tape.gradient(loss, model.trainable_variables)
    tf.cond(
        tf.math.is_finite(loss),
        lambda: model.optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True)),
        lambda: model.optimizer.iterations,
    )
    return {"loss": loss}


def sums_in_a_branch(
    model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]
) -> dict[str, tf.Tensor]:
    """As where gradients are added up, of which one batch has too few examples."""
    sums = model.trainable_variables
    tf.cond(
        model.optimizer.iterations % 2 == 0,
        lambda: model.optimizer.apply_gradients(zip(sums, model.trainable_variables, strict=True)),
        lambda: model.optimizer.iterations,
    )
    return dict(model.test_step(batch))


def looks_after(model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    model.train_step(batch)
    return {"weight": tf.reduce_sum(model.trainable_variables[0])}


def counts_after(model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    model.train_step(batch)
    return {"iterations": model.optimizer.iterations.read_value()}


def with_two_optimizers(
    model: tf.keras.Model, batch: tuple[tf.Tensor, tf.Tensor]
) -> dict[str, tf.Tensor]:
    bias = model.trainable_variables[1]
    bias.assign_sub(0.1 * bias)
    return model.train_step(batch)


@pytest.mark.parametrize(
    "step",
    [
        twice,
        in_a_branch,
        applied_in_a_branch,
        sums_in_a_branch,
        looks_after,
        counts_after,
        with_two_optimizers,
    ],
)
def test_a_step_whose_changes_cannot_wait_for_its_end_is_made_on_the_variables(
    step: Callable[..., dict[str, tf.Tensor]],
) -> None:
    model = network()
    steps = tf.Variable(0, dtype=tf.int64)

    assert Exchange.of(model, lambda batch: step(model, batch), steps, OF_IMAGES) is None


def test_what_a_step_assigns_is_assigned_to_the_variable() -> None:
    """The sum of what two workers assign is what neither did."""
    model, step = network(), tf.Variable(0, dtype=tf.int64)
    with tf.name_scope("own"):
        model.last = tf.Variable(5.0, trainable=False)

    def assigning(batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        model.last.assign(tf.cast(batch[1][0], tf.float32))
        return model.train_step(batch)

    exchange = Exchange.of(model, assigning, step, OF_IMAGES)
    uses = train(model, images(), step, exchange)

    assert float(model.last) == images()[1][-1][0].numpy()
    assert "AssignVariableOp" in uses(model.last)
