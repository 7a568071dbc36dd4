"""Mode local: a worker trains on a copy of the variables, then pushes the changes.

In each round a worker reads all variables once, makes a number of steps on its own copy, and adds
its share of the change to the variables. That takes one round trip per round instead of one per
step, which makes small models many times faster. It is a different algorithm from gradient descent
on shared variables: the more steps a round has, the older the values. Runs on scheduled_loop.
"""

import logging

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.data.batches import examples_in, time_after
from tftrainer.parameter_server.chief import Chief
from tftrainer.parameter_server.local_copies import LocalCopies, metrics_of, variables_of
from tftrainer.parameter_server.scheduled_loop import LONGEST_CALL, ScheduledLoop

_LOG = logging.getLogger(__name__)

# A round of slow steps is cut short here: gRPC ends calls of more than about a minute.
_LONGEST_ROUND = 20.0


def training(chief: Chief) -> ScheduledLoop:
    """Make the training; `run` it."""
    chief.require_one_device()
    if (workers := len(chief.workers)) > 1:
        _LOG.info(
            "the model moves by the mean of what %d workers learn: to learn as fast as one process "
            "from the same examples, it needs %d times the learning rate of that",
            workers,
            workers,
        )
    return ScheduledLoop(chief, _call(chief), granularity=chief.session.job.arguments.local_steps)


def _call(chief: Chief) -> tf_types.Function:
    session, shared, work = chief.session, chief.input, chief.work
    strategy, make_step, step = session.setup.strategy, session.make_step, session.step
    round_steps = session.job.arguments.local_steps
    share = 1 / len(chief.workers)
    metrics, variables = metrics_of(session.model), variables_of(session.model)
    learned = session.model.trainable_variables

    @tf.function
    def train(
        iterator: tf_types.Iterator,
        first: tf_types.Tensor,
        end: tf_types.Tensor,
        by: tf_types.Tensor,
        near: tf_types.Tensor,
    ) -> tf_types.Tensor:
        began = tf.timestamp()
        copies = LocalCopies(variables, device=strategy.extended.worker_devices[0])
        number = first
        examples = tf.constant(0, tf.int64)
        waiting = tf.constant(0.0, tf.float64)
        place = tf.zeros([2], tf.int64)
        while number < end and time_after(number) < began + LONGEST_CALL:
            pulled = copies.pull()
            begin, until = number, time_after(number) + _LONGEST_ROUND
            end_of_round = tf.minimum(number + round_steps * by, end)
            while number < end_of_round and time_after(number) < until:
                read = shared.read(iterator, number, by, near=near, after=number)
                with copies.substituted():
                    strategy.run(make_step, args=(read.batch,))
                number += by
                examples += examples_in(read.batch)
                waiting += read.waited
                place = read.place
            pushed = copies.push(pulled, share=share, whole=metrics, learned=learned)
            # Who reads a step finds its loss.
            with tf.control_dependencies(pushed):
                step.assign_add((number - begin) // by)
        work.add(examples=examples, waiting=waiting, busy=time_after(number) - began)
        return tf.concat([[(number - first) // by], place], axis=0)

    return train
