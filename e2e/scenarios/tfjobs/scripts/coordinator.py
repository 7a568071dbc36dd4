"""Trains with parameter servers as TensorFlow's tutorial does; it knows no operator."""

import os

import tensorflow as tf

STEPS, STEPS_PER_SAVE = 200, 50

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
directory = os.environ.get("MODEL_DIR", "")

if resolver.task_type in ("worker", "ps"):
    if "ps" not in resolver.cluster_spec().jobs:
        raise SystemExit("No PS replicas found")
    tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        # The tutorial's setting for machines with few cores.
        config=tf.compat.v1.ConfigProto(inter_op_parallelism_threads=8),
    ).join()

if resolver.task_type == "evaluator":
    weights = tf.Variable(tf.zeros([4, 1]))
    step = tf.Variable(0, dtype=tf.int64)
    saved = tf.train.Checkpoint(weights=weights, step=step)
    for path in tf.train.checkpoints_iterator(directory):
        saved.restore(path).expect_partial()
        error = tf.reduce_max(tf.abs(weights - 1.0)).numpy()
        print(f"step {step.numpy()}: the weights differ by {error:.3f} at most", flush=True)
        if step.numpy() >= STEPS:
            raise SystemExit(0)

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.zeros([4, 1]))
    step = tf.Variable(0, dtype=tf.int64)


@tf.function
def train_step() -> tf.Tensor:
    def replica_step() -> tf.Tensor:
        features = tf.random.uniform([64, 4])
        labels = tf.reduce_sum(features, axis=1, keepdims=True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.matmul(features, weights) - labels) ** 2)
        weights.assign_sub(0.3 * tape.gradient(loss, weights))
        step.assign_add(1)
        return loss

    return strategy.run(replica_step)


checkpoint = tf.train.Checkpoint(weights=weights, step=step)
for _ in range(STEPS // STEPS_PER_SAVE):
    for _ in range(STEPS_PER_SAVE):
        loss = coordinator.schedule(train_step)
    coordinator.join()
    if directory:
        checkpoint.save(f"{directory}/model")
    print(f"step {step.numpy()}: loss {loss.fetch():.4f}", flush=True)
if loss.fetch() > 0.05:
    raise SystemExit("it has learned nothing")
