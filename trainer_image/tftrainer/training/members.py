"""Shares numbers between the processes that make the same calls. Used by the training loops.

Under MultiWorkerMirrored these are all members of the cluster. TensorFlow gives them sums of what
all have, and nothing else: what is to be the chief's value is 0 everywhere else.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tftrainer import tf_types
from tftrainer.runtime.throughput import Work

_MICROSECONDS = 1e6


class Members:
    """The processes that train by the same calls, and which of them this one is."""

    def __init__(self, strategy: tf_types.Strategy, *, count: int = 1, number: int = 0) -> None:
        """Members have as many replicas each as the others."""
        self.count = count
        self.number = number
        self._total = _total(strategy)
        self._replicas = strategy.num_replicas_in_sync // count

    @property
    def is_chief(self) -> bool:
        """Whether this process decides, and writes the checkpoints."""
        return self.number == 0

    def sum(self, values: Sequence[int]) -> list[int]:
        """Return the sums over all members, who call it together."""
        if self.count == 1:
            return list(values)
        # Each replica adds those of its member.
        sums = self._total(tf.constant(values, tf.int64)).numpy().tolist()
        return [value // self._replicas for value in sums]

    def meet(self) -> None:
        """Wait for all members, who call it together."""
        self.sum([0])

    def any(self, own: bool) -> bool:  # noqa: FBT001 -- as the builtin of this name
        """Return whether it is so in any member; all members call it together."""
        return self.sum([int(own)])[0] > 0

    def of_each(self, value: int) -> list[int]:
        """Return every member's value, in their order; all members call it together."""
        return self.sum([value * (place == self.number) for place in range(self.count)])

    def of_chief(self, values: Sequence[int]) -> list[int]:
        """Return the chief's values; all members call it together."""
        return self.sum([value * self.is_chief for value in values])

    def floats_of_chief(self, values: Sequence[float]) -> list[float]:
        """Return the chief's values, to the last bit; all members call it together."""
        words = [int(word) for word in np.asarray(values, np.float64).view(np.uint32)]
        chiefs = np.asarray(self.of_chief(words), np.uint32)
        return [float(value) for value in chiefs.view(np.float64)]

    def text_of_chief(self, text: str) -> str:
        """Return the chief's text; all members call it together."""
        own = text.encode()
        (length,) = self.of_chief([len(own)])
        # Four bytes a number, of which the last may be filled up.
        padded = own[:length].ljust(-(-length // 4) * 4, b"\0")
        words = self.of_chief([int(word) for word in np.frombuffer(padded, np.uint32)])
        return np.asarray(words, np.uint32).tobytes()[:length].decode()

    def encoded(self, work: Work) -> list[int]:
        """Write this member's work as numbers whose sums are the works of all, encoded."""
        own = [
            work.examples,
            round(work.waiting * _MICROSECONDS),
            round(work.busy * _MICROSECONDS),
        ]
        return [value * (place == self.number) for place in range(self.count) for value in own]


def decoded(sums: Sequence[int]) -> list[Work]:
    """Read the sums of what all members encoded."""
    return [
        Work(
            examples=sums[at],
            waiting=sums[at + 1] / _MICROSECONDS,
            busy=sums[at + 2] / _MICROSECONDS,
        )
        for at in range(0, len(sums), 3)
    ]


def _total(strategy: tf_types.Strategy) -> tf_types.Function:
    def in_replica(values: tf_types.Tensor) -> tf_types.Tensor:
        replica = tf.distribute.get_replica_context()
        # The identity places the values on this replica's device, where they are summed.
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(values))

    @tf.function
    def total(values: tf_types.Tensor) -> tf_types.Tensor:
        result = strategy.run(in_replica, args=(values,))
        return strategy.experimental_local_results(result)[0]

    return total
