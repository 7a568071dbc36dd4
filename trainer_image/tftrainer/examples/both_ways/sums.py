"""Adds the numbers 1 to 5 to a variable, with and without a cluster: 15, if done right.

With a cluster the variable is on a ps, and the workers add to it. Every worker has a dataset of its
own, with all five numbers: functions that take the next one each do not share them.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.config.cluster import Cluster, Role

_NUMBERS = 5
_FIFTEEN = frozenset({15})


@dataclass(frozen=True, slots=True)
class Sum:
    """What one way gave, and what it may give."""

    way: str
    total: int
    possible: frozenset[int]


def dataset() -> tf_types.Dataset:
    """Make the numbers 1 to 5, of int64."""
    return tf.data.Dataset.range(1, _NUMBERS + 1)


def alone() -> Sum:
    """Add them in this process."""
    total = tf.Variable(0, dtype=tf.int64)
    for number in dataset():
        total.assign_add(number)
    return Sum("not distributed", int(total), _FIFTEEN)


def distributed(cluster: Cluster) -> Iterator[Sum]:
    """Connect, and add them on the workers in three ways."""
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.addresses()), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def add_all(iterator: tf_types.Iterator) -> None:
        for _ in tf.range(_NUMBERS):
            total.assign_add(next(iterator))

    @tf.function
    def add_next(iterator: tf_types.Iterator) -> None:
        total.assign_add(next(iterator))

    @tf.function
    def add(number: tf_types.Tensor) -> None:
        total.assign_add(number)

    def total_after(*calls: tuple[tf_types.Function, object]) -> int:
        total.assign(0)
        for function, argument in calls:
            coordinator.schedule(function, args=(argument,))
        # Returns when all functions are done, wherever; an error of one is raised here.
        coordinator.join()
        return int(total)

    per_worker = coordinator.create_per_worker_dataset(dataset)
    total_of_one = total_after((add_all, iter(per_worker)))
    yield Sum("one function, which adds its worker's five", total_of_one, _FIFTEEN)
    iterator = iter(per_worker)
    total_of_five = total_after(*[(add_next, iterator)] * _NUMBERS)
    possible = possible_sums(len(cluster.of(Role.WORKER)))
    yield Sum("five functions, each adds its worker's next", total_of_five, possible)
    total_of_given = total_after(*((add, number) for number in dataset()))
    yield Sum("five functions, each adds what it is given", total_of_given, _FIFTEEN)


def possible_sums(workers: int) -> frozenset[int]:
    """Return what comes out if each of the functions is run by any of so many workers.

    A worker that runs k of them adds 1 + 2 + ... + k.
    """
    return frozenset(
        sum(k * (k + 1) // 2 for k in Counter(takers).values())
        for takers in combinations_with_replacement(range(workers), _NUMBERS)
    )
