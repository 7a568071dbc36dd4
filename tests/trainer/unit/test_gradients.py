"""Gradients are taken from a step, packed, averaged and unpacked without being changed."""

import numpy as np
import pytest
import tensorflow as tf
from tftrainer.errors import BadConfigurationError
from tftrainer.parameter_server import gradients


@pytest.fixture
def model() -> tf.keras.Model:
    made = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
    made.compile(tf.keras.optimizers.SGD(0.1), "mse")
    made.optimizer.build(made.trainable_variables)
    return made


def batch() -> tuple[tf.Tensor, tf.Tensor]:
    return tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([[1.0], [0.0]])


def test_a_step_gives_its_gradients_away_and_changes_nothing(
    model: tf.keras.Model,
) -> None:
    before = [variable.numpy() for variable in model.trainable_variables]
    with gradients.taken(model) as taken:
        model.train_step(batch())

    features, labels = batch()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(features) - labels) ** 2)
    wanted = tape.gradient(loss, model.trainable_variables)
    assert [variable.name for _, variable in taken.gradients] == [
        variable.name for variable in model.trainable_variables
    ]
    for (gradient, _), expected in zip(taken.gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)
    assert int(model.optimizer.iterations) == 0
    for variable, value in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)

    model.train_step(batch())
    assert int(model.optimizer.iterations) == 1


def test_gradients_that_are_none_are_left_out(model: tf.keras.Model) -> None:
    one, other = model.trainable_variables
    with gradients.taken(model) as taken:
        model.optimizer.apply_gradients([(None, one), (tf.ones([1]), other)])

    assert [variable.name for _, variable in taken.gradients] == [other.name]


def test_sums_that_a_step_keeps_in_variables_are_taken_as_they_are_then(
    model: tf.keras.Model,
) -> None:
    sums = [tf.Variable(tf.ones_like(each)) for each in model.trainable_variables]
    with gradients.taken(model) as taken:
        model.optimizer.apply_gradients(zip(sums, model.trainable_variables, strict=True))
        for each in sums:
            each.assign(tf.zeros_like(each))

    for gradient, _ in taken.gradients:
        assert isinstance(gradient, tf.Tensor)
        np.testing.assert_array_equal(gradient, tf.ones_like(gradient))


def test_what_is_applied_in_a_branch_alone_cannot_be_averaged(model: tf.keras.Model) -> None:
    @tf.function
    def step(*, now_and_then: bool) -> None:
        found = [each + 1.0 for each in model.trainable_variables]

        def apply() -> None:
            model.optimizer.apply_gradients(zip(found, model.trainable_variables, strict=True))

        with gradients.taken(model) as taken:
            if now_and_then:
                tf.cond(found[0][0, 0] > 3, apply, lambda: None)
            else:
                apply()
        taken.check_is_of(tf.compat.v1.get_default_graph())

    step.get_concrete_function(now_and_then=False)
    with pytest.raises(BadConfigurationError, match=r"in a branch or loop, as of tf\.cond; --mode"):
        step.get_concrete_function(now_and_then=True)


@pytest.mark.parametrize(
    ("times", "said"),
    [pytest.param(0, "no gradient", id="never"), pytest.param(2, "once", id="twice")],
)
def test_a_step_that_does_not_apply_exactly_once_is_refused(
    model: tf.keras.Model, times: int, said: str
) -> None:
    def step() -> None:
        with gradients.taken(model):
            for _ in range(times):
                variables = model.trainable_variables
                model.optimizer.apply_gradients([(v + 1.0, v) for v in variables])

    with pytest.raises(BadConfigurationError, match=said):
        step()
    model.train_step(batch())


def test_packing_and_unpacking_gives_the_same_gradients() -> None:
    table, kernel, bias, half = (
        tf.Variable(tf.zeros(shape, dtype))
        for shape, dtype in (
            ([9, 2], "float32"),
            ([2, 3], "float32"),
            ([3], "float32"),
            ([], "float16"),
        )
    )
    sparse = tf.IndexedSlices(
        tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([7, 7]), tf.constant([9, 2])
    )
    given = [
        (tf.reshape(tf.range(6.0), [2, 3]), kernel),
        (sparse, table),
        (tf.constant([7.0, 8.0, 9.0]), bias),
        (tf.constant(0.5, tf.float16), half),
    ]
    packing = gradients.Packing(given)
    packed = packing.pack([gradient for gradient, _ in given])

    assert {name: value.shape.as_list() for name, value in packed.items()} == {
        "1 values": [2, 2],
        "1 indices": [2],
        "dense float32": [9],
        "dense float16": [1],
    }
    assert {
        n: s.is_compatible_with(packed[n]) for n, s in packing.signature().items()
    } == dict.fromkeys(packed, True)
    for (gradient, variable), (expected, own) in zip(packing.unpack(packed), given, strict=True):
        assert variable is own
        np.testing.assert_array_equal(
            tf.convert_to_tensor(gradient), tf.convert_to_tensor(expected)
        )


def test_the_mean_is_weighted_and_added_in_order() -> None:
    parts = [
        {
            "dense float32": np.array([1.0, 2.0], np.float32),
            "0 values": np.array([[4.0]], np.float32),
            "0 indices": np.array([3]),
        },
        {
            "dense float32": np.array([5.0, 6.0], np.float32),
            "0 values": np.array([[8.0]], np.float32),
            "0 indices": np.array([3]),
        },
    ]
    mean = gradients.mean(parts, [0.75, 0.25])

    np.testing.assert_array_equal(mean["dense float32"], np.array([2.0, 3.0], np.float32))
    np.testing.assert_array_equal(mean["0 values"], np.array([[3.0], [2.0]], np.float32))
    np.testing.assert_array_equal(mean["0 indices"], [3, 3])
    assert mean["dense float32"].dtype == np.float32


def test_halves_are_averaged_without_an_error_of_rounding() -> None:
    values = np.random.default_rng(1).normal(size=(2, 1000)).astype(np.float32)
    mean = gradients.mean([{"dense float32": each} for each in values], [0.5, 0.5])

    plain = tf.constant(values[0]) * 0.5 + tf.constant(values[1]) * 0.5
    np.testing.assert_array_equal(mean["dense float32"], plain)
