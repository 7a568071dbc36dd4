"""Steps work on copies of variables, and what they change is pushed to the variables themselves."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import tensorflow as tf
from tftrainer.parameter_server.local_copies import (
    LocalCopies,
    metrics_of,
    variables_of,
)

CPU = "/device:CPU:0"


def test_what_can_be_shared_is_shared_and_what_counts_is_pushed_whole() -> None:
    weight, seen = tf.Variable([1.0, 2.0]), tf.Variable(10.0)
    steps, done = tf.Variable(5, dtype=tf.int64), tf.Variable([False])

    @tf.function
    def learn() -> tf.Tensor:
        copies = LocalCopies([weight, seen, steps, done], device=CPU)
        pulled = copies.pull()
        for _ in tf.range(3):
            with copies.substituted():
                weight.assign_add([1.0, -2.0])
                seen.assign_add(1.0)
                steps.assign_add(1)
                done.assign([True])
        with copies.substituted():
            local = weight.read_value()
        untouched = weight.read_value()
        copies.push(pulled, share=0.5, whole=[seen], learned=[weight])
        return tf.stack([local, untouched])

    local, untouched = learn().numpy().tolist()

    assert (local, untouched) == ([4.0, -4.0], [1.0, 2.0])
    assert weight.numpy().tolist() == [2.5, -1.0]
    assert (float(seen), int(steps), done.numpy().tolist()) == (13.0, 8, [True])


def test_the_end_of_a_push_can_be_waited_for() -> None:
    weight, seen = tf.Variable(1.0), tf.Variable(10.0)
    done, mean = tf.Variable([False]), tf.Variable(1.0)

    @tf.function
    def learn() -> None:
        copies = LocalCopies([weight, seen, done, mean], device=CPU)
        pushed = copies.push(copies.pull(), share=0.5, whole=[seen], learned=[weight])
        with tf.control_dependencies(pushed):
            tf.no_op(name="after")

    graph = learn.get_concrete_function().graph
    waits_for = graph.get_operation_by_name("after").control_inputs
    changed = {op.inputs[0].name for op in waits_for if op.type.startswith("Assign")}
    inside = {inside.name for _, inside in graph.captures if inside.dtype == tf.resource}
    assert changed == inside
    assert len(inside) == 4


def compiled() -> tf.keras.Model:
    made = tf.keras.Sequential(
        [tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1, kernel_initializer="ones")]
    )
    rate = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.5)
    made.compile(tf.keras.optimizers.Adam(rate), "mse")
    made.optimizer.build(made.trainable_variables)
    made.compiled_loss.build(tf.zeros([4, 1]))
    return made


@pytest.fixture(params=["float32", "mixed_bfloat16"])
def policy(request: pytest.FixtureRequest) -> Iterator[None]:
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(request.param)
    yield
    tf.keras.mixed_precision.set_global_policy(before)


@pytest.mark.usefixtures("policy")
def test_a_keras_step_trains_the_copy_alone() -> None:
    trained, plain = compiled(), compiled()
    batch = tf.ones([4, 2]), tf.zeros([4, 1])
    metrics, variables = metrics_of(trained), variables_of(trained)

    @tf.function
    def learn(share: tf.Tensor) -> None:
        copies = LocalCopies(variables, device=CPU)
        pulled = copies.pull()
        for _ in tf.range(5):
            with copies.substituted():
                trained.train_step(batch)
        copies.push(pulled, share=share, whole=metrics, learned=trained.trainable_variables)

    graph = learn.get_concrete_function(tf.TensorSpec([])).graph
    (loop,) = (op for op in graph.get_operations() if op.type == "While")
    own = {inside.name for outside, inside in graph.captures if outside.dtype == tf.resource}
    reached = own & {tensor.name for tensor in loop.inputs}
    assert own
    assert not reached, "a step works on a variable itself"

    learn(tf.constant(0.0))
    assert [v.numpy().tolist() for v in trained.variables] == [[[1.0], [1.0]], [0.0]]
    assert int(trained.optimizer.iterations) == 5
    assert [float(each.numpy()) for each in metrics][1] == 5 * 4

    trained.optimizer.iterations.assign(0)
    learn(tf.constant(1.0))
    for _ in range(5):
        plain.train_step(batch)
    for variable, wanted in zip(trained.variables, plain.variables, strict=True):
        assert variable.numpy() == pytest.approx(wanted.numpy(), abs=1e-6)


OPTIMIZERS = {
    name: made
    for name, made in vars(tf.keras.optimizers).items()
    if isinstance(made, type)
    and issubclass(made, tf.keras.optimizers.Optimizer)
    and name != "Optimizer"
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_worker_that_is_late_harms_no_optimizer(name: str) -> None:
    """One pushes what it pulled when gradients were large, after the other has made many rounds."""
    made = tf.keras.Sequential(
        [
            tf.keras.layers.Input((2,)),
            tf.keras.layers.BatchNormalization(),
            tf.keras.layers.Dense(1, kernel_initializer="zeros"),
        ]
    )
    made.compile(OPTIMIZERS[name](), "mse")
    made.optimizer.build(made.trainable_variables)
    made.compiled_loss.build(tf.zeros([4, 1]))
    metrics, variables = metrics_of(made), variables_of(made)
    learned = made.trainable_variables
    # As after the first steps of a training, which have large gradients.
    features = tf.random.stateless_normal([16, 2], [1, 2])
    labels = tf.reduce_sum(features, axis=1, keepdims=True)
    for _ in range(20):
        made.train_step((features, 10 * labels))
    statistics = [
        each for each in variables if not any(each is other for other in [*learned, *metrics])
    ]
    never_negative = [
        each
        for each in statistics
        if each.dtype.is_floating and (each.numpy() >= 0).all() and (each.numpy() > 0).any()
    ]

    @tf.function
    def train() -> None:
        late, quick = (LocalCopies(variables, device=CPU) for _ in range(2))
        pulled_late = late.pull()
        with late.substituted():
            for _ in tf.range(200):
                made.train_step((features, 0.001 * labels))
        for _ in tf.range(4):
            pulled = quick.pull()
            with quick.substituted():
                for _ in tf.range(200):
                    made.train_step((features, 0.001 * labels))
            quick.push(pulled, share=0.5, whole=metrics, learned=learned)
        late.push(pulled_late, share=0.5, whole=metrics, learned=learned)

    train()

    assert never_negative or name in {"Lion", "SGD"}
    for variable in never_negative:
        assert (variable.numpy() >= 0).all(), variable.name
    made.train_step((features, labels))
    assert all(tf.reduce_all(tf.math.is_finite(each)) for each in learned)


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        pytest.param(1.0, [0.6, 1.1, -0.6, 1.05], id="nobody else has pushed"),
        pytest.param(0.4, [0.3, 0.5, -1.2, 0.45], id="others have gone part of the way"),
        pytest.param(0.1, [0.1, 0.2, -1.5, 0.15], id="others are past it"),
        pytest.param(3.0, [2.6, 3.1, 1.4, 3.05], id="others have gone the other way"),
    ],
)
def test_a_statistic_moves_towards_what_it_shrinks_to_and_never_past_it(
    now: float, wanted: list[float]
) -> None:
    """It shrinks from 1 to 0.2, grows to 1.2, changes its sign to -2.2, and grows from nothing."""
    statistic = tf.Variable(tf.fill([4], 0.0))
    before = tf.constant([1.0, 1.0, 1.0, 0.0])

    @tf.function
    def push() -> None:
        statistic.assign(before)
        copies = LocalCopies([statistic], device=CPU)
        pulled = copies.pull()
        with copies.substituted():
            statistic.assign([0.2, 1.2, -2.2, 0.1])
        statistic.assign(tf.fill([4], now))
        copies.push(pulled, share=0.5, whole=[], learned=[])

    push()
    assert statistic.numpy().tolist() == pytest.approx(wanted)


@pytest.mark.parametrize(
    "fails", [pytest.param(False, id="to its end"), pytest.param(True, id="into an error")]
)
def test_the_memory_of_copies_is_freed_when_a_function_has_run(*, fails: bool) -> None:
    large = tf.Variable(tf.zeros([10_000_000]))

    @tf.function
    def learn() -> None:
        copies = LocalCopies([large], device=CPU)
        pulled = copies.pull()
        with copies.substituted():
            large.assign_add(tf.ones([10_000_000]))
        if fails:
            tf.debugging.Assert(large.read_value()[0] > 1e6, [0])
        copies.push(pulled, share=1.0, whole=[], learned=[large])

    used = []
    for _ in range(6):
        with pytest.raises(tf.errors.InvalidArgumentError) if fails else nullcontext():
            learn()
        used.append(memory())
    assert used[-1] < used[0] + 100e6


def memory() -> float:
    """Bytes that this process has for itself."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024
