"""Mode local: a worker trains on a copy of the variables, then pushes the changes.

In each round a worker reads all variables once, makes a number of steps on its own copy, and adds
its share of the change to the variables. That takes one round trip per round instead of one per
step, which makes small models many times faster. It is a different algorithm from gradient descent
on shared variables: the more steps a round has, the older the values. Runs on scheduled_loop.
"""

import tensorflow as tf

from tftrainer import tf_types
from tftrainer.batches import examples_in, time_after, timed_next
from tftrainer.errors import BadConfigurationError
from tftrainer.parameter_server.local_copies import LocalCopies, metrics_of, variables_of
from tftrainer.parameter_server.scheduled_loop import LONGEST_CALL, ScheduledLoop
from tftrainer.parameter_server.session import Session

# A round of slow steps is cut short here: gRPC ends calls of more than about a minute.
_LONGEST_ROUND = 20.0


def training(session: Session) -> ScheduledLoop:
    """Make the training; `run` it."""
    if session.strategy.num_replicas_in_sync > 1:
        raise BadConfigurationError(
            "--mode=local supports at most one GPU per worker: give each worker one GPU, and use "
            "more workers."
        )
    return ScheduledLoop(session, _call(session), granularity=session.job.arguments.local_steps)


def _call(session: Session) -> tf_types.Function:
    strategy, make_step, step, work = (
        session.strategy,
        session.make_step,
        session.step,
        session.work,
    )
    round_steps = session.job.arguments.local_steps
    share = 1 / len(session.workers)
    metrics, variables = metrics_of(session.model), variables_of(session.model)

    @tf.function
    def call(iterator: tf_types.Iterator, steps: tf_types.Tensor) -> None:
        began = tf.timestamp()
        copies = LocalCopies(variables, device=strategy.extended.worker_devices[0])
        made = examples = tf.constant(0, tf.int64)
        waiting = tf.constant(0.0, tf.float64)
        while made < steps and time_after(made) < began + LONGEST_CALL:
            pulled = copies.pull()
            first, until = made, time_after(made) + _LONGEST_ROUND
            end = tf.minimum(made + round_steps, steps)
            while made < end and time_after(made) < until:
                batch, waited = timed_next(iterator, after=made)
                with copies.substituted():
                    strategy.run(make_step, args=(batch,))
                made += 1
                examples += examples_in(batch)
                waiting += waited
            copies.push(pulled, share=share, whole=metrics)
            step.assign_add(made - first)
        work.add(examples=examples, waiting=waiting, busy=time_after(made) - began)

    return call
