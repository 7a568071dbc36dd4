"""Asynchronous training: each worker reads the variables, makes a step and pushes its update.

Workers do not wait for each other, so a gradient may be applied to variables that have changed
since it was computed. Runs on scheduled_loop.
"""

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.data.batches import examples_in, time_after
from tftrainer.parameter_server.chief import Chief
from tftrainer.parameter_server.exchange import Exchange
from tftrainer.parameter_server.replicas import on_shares
from tftrainer.parameter_server.scheduled_loop import LONGEST_CALL, ScheduledLoop


def training(chief: Chief) -> ScheduledLoop:
    """Make the training; `run` it."""
    return ScheduledLoop(chief, call(chief))


def call(chief: Chief) -> tf_types.Function:
    """Return the tf.function (iterator, first, end, step, near) that trains on a range of batches.

    It returns how many it made and the place of the last (int64, [3]); see ScheduledLoop.
    """
    session, shared, work = chief.session, chief.input, chief.work
    strategy, step = session.setup.strategy, session.step
    device = strategy.extended.worker_devices[0]
    make_step = on_shares(session.make_step, strategy)
    exchange = _exchange(chief)

    @tf.function
    def train(
        iterator: tf_types.Iterator,
        first: tf_types.Tensor,
        end: tf_types.Tensor,
        by: tf_types.Tensor,
        near: tf_types.Tensor,
    ) -> tf_types.Tensor:
        began = tf.timestamp()
        number = first
        examples = tf.constant(0, tf.int64)
        waiting = tf.constant(0.0, tf.float64)
        place = tf.zeros([2], tf.int64)
        make_on_copies = exchange.begin(device) if exchange is not None else None
        # What a turn changes is known only when all of the turn is done.
        while number < end and time_after(number) < began + LONGEST_CALL:
            read = shared.read(iterator, number, by, near=near, after=number)
            if make_on_copies is not None:
                make_on_copies(read.batch)
            else:
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


def _exchange(chief: Chief) -> Exchange | None:
    """Return how steps are made with few messages; None if each uses the variables themselves."""
    session = chief.session
    if session.setup.strategy.num_replicas_in_sync > 1:
        return None
    with session.setup.strategy.scope(), session.traces_a_step():
        return Exchange.of(session.model, session.make_step, session.step, chief.input.batch_spec)
