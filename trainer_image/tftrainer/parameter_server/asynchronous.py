"""Asynchronous training: each worker reads the variables, makes a step and pushes its update.

Workers do not wait for each other, so a gradient may be applied to variables that have changed
since it was computed. Runs on scheduled_loop.
"""

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.batches import examples_in, time_after, timed_next
from tftrainer.parameter_server.scheduled_loop import LONGEST_CALL, ScheduledLoop
from tftrainer.parameter_server.session import Session


def training(session: Session) -> ScheduledLoop:
    """Make the training; `run` it."""
    return ScheduledLoop(session, _call(session))


def _call(session: Session) -> tf_types.Function:
    strategy, make_step, step, work = (
        session.strategy,
        session.make_step,
        session.step,
        session.work,
    )

    @tf.function
    def call(iterator: tf_types.Iterator, steps: tf_types.Tensor) -> None:
        began = tf.timestamp()
        made = examples = tf.constant(0, tf.int64)
        waiting = tf.constant(0.0, tf.float64)
        # What a turn changes is known only when all of the turn is done.
        while made < steps and time_after(made) < began + LONGEST_CALL:
            batch, waited = timed_next(iterator, after=made)
            strategy.run(make_step, args=(batch,))
            step.assign_add(1)
            made += 1
            examples += examples_in(batch)
            waiting += waited
        work.add(examples=examples, waiting=waiting, busy=time_after(made) - began)

    return call
