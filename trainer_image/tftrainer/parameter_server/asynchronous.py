"""Asynchronous training: each worker reads the variables, makes a step and pushes its update.

Workers do not wait for each other, so a gradient may be applied to variables that have changed
since it was computed. Runs on scheduled_loop.
"""

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.data.batches import examples_in, time_after
from tftrainer.parameter_server.chief import Chief
from tftrainer.parameter_server.replicas import on_shares
from tftrainer.parameter_server.scheduled_loop import LONGEST_CALL, ScheduledLoop


def training(chief: Chief) -> ScheduledLoop:
    """Make the training; `run` it."""
    return ScheduledLoop(chief, call(chief))


def call(chief: Chief) -> tf_types.Function:
    """Return the tf.function (iterator, first, end, step) that trains on a range of batches.

    It returns how many it made and the place of the last (int64, [3]); see ScheduledLoop.
    """
    session, shared, work = chief.session, chief.input, chief.work
    strategy, step = session.setup.strategy, session.step
    make_step = on_shares(session.make_step, strategy)

    @tf.function
    def train(
        iterator: tf_types.Iterator,
        first: tf_types.Tensor,
        end: tf_types.Tensor,
        by: tf_types.Tensor,
    ) -> tf_types.Tensor:
        began = tf.timestamp()
        number = first
        examples = tf.constant(0, tf.int64)
        waiting = tf.constant(0.0, tf.float64)
        place = tf.zeros([2], tf.int64)
        # What a turn changes is known only when all of the turn is done.
        while number < end and time_after(number) < began + LONGEST_CALL:
            read = shared.read(iterator, number, by, after=number)
            strategy.run(make_step, args=(read.batch,))
            # Where no batch comes, nothing was trained.
            with tf.control_dependencies([read.place]):
                step.assign_add(1)
            number += by
            examples += examples_in(read.batch)
            waiting += read.waited
            place = read.place
        work.add(examples=examples, waiting=waiting, busy=time_after(number) - began)
        return tf.concat([[(number - first) // by], place], axis=0)

    return train
