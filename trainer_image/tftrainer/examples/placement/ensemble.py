"""`python -m tftrainer.examples.placement.ensemble`: a cluster of one's own, a model for each task.

The exercises of the texts on the ClusterSpec: jobs have other names than chief, worker and ps, and
one has three tasks. Each of them trains a model of its own, of other measurements of y = e^x, and
the mean of what they predict is better than they are on average. All servers are in this process;
it needs no job.
"""

import os
import socket

import tensorflow as tf

from tftrainer import tf_types

_MEMBERS = 3
_STEPS = 300
_RATE = 0.05
_UNITS = 4
_POINTS = 64
_NOISE = 0.5


def addresses(count: int) -> list[str]:
    """Return so many addresses of this computer that nobody uses."""
    # All open at once, so that they differ.
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    found = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return found


def predicted(x: tf_types.Tensor, y: tf_types.Tensor, seed: int, device: str) -> tf_types.Tensor:
    """Train a small network on a device; return what it predicts, float32[points, 1]."""

    def drawn(shape: list[int], number: int) -> tf_types.Tensor:
        return tf.random.stateless_uniform(shape, (seed, number), -1.0, 1.0)

    measured = y + _NOISE * tf.random.stateless_normal(y.shape, (seed, 9))
    with tf.device(device):
        weights = [tf.Variable(drawn(s, n)) for n, s in enumerate(([1, _UNITS], [_UNITS, 1]))]
        biases = [tf.Variable(drawn(s, n)) for n, s in enumerate(([_UNITS], [1]), start=2)]
    variables = [*weights, *biases]

    def network() -> tf_types.Tensor:
        return tf.tanh(x @ weights[0] + biases[0]) @ weights[1] + biases[1]

    @tf.function
    def train() -> tf_types.Tensor:
        with tf.device(device):
            for _ in tf.range(_STEPS):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((network() - measured) ** 2)
                for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
                    variable.assign_sub(_RATE * slope)
            return network()

    return train()


def main() -> None:
    """Start the cluster, train, and print each loss and its device, then that of the mean."""
    client, *members = addresses(1 + _MEMBERS)
    spec = tf.train.ClusterSpec({"client": [client], "member": members})
    # Kept, as a server ends with its object.
    servers = [tf.distribute.Server(spec, "member", index) for index in range(_MEMBERS)]
    tf.config.experimental_connect_to_cluster(spec, "client", 0, protocol="grpc")
    x = tf.reshape(tf.linspace(-1.0, 1.0, _POINTS), [_POINTS, 1])
    y = tf.exp(x)
    predictions = [
        predicted(x, y, index, f"/job:member/replica:0/task:{index}/device:CPU:0")
        for index in range(len(servers))
    ]
    line = "{:18} {:.6f}  {}"
    for index, prediction in enumerate(predictions):
        loss = float(tf.reduce_mean((prediction - y) ** 2))
        print(line.format(f"member {index}", loss, prediction.device))  # noqa: T201
    mean = tf.add_n(predictions) / len(predictions)
    loss = float(tf.reduce_mean((mean - y) ** 2))
    print(line.format("mean of all", loss, mean.device), flush=True)  # noqa: T201
    # Servers of this process wait for each other when they end.
    os._exit(0)


if __name__ == "__main__":
    main()
