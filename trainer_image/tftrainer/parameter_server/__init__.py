"""The chief of a ParameterServer job: hands work to the workers and keeps what they learn.

The variables are on the ps. How the workers learn together is the mode's matter, one module each;
what all modes need (the connection, the model, the checkpoint gone on from) is set up in session.

Steps are counted by an int64 variable of our own on a ps. A ps's loss is the loss of the variables,
and ends the chief; a worker's is no more than the loss of its work.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from tftrainer.arguments import Mode
from tftrainer.cluster import Cluster
from tftrainer.errors import BadConfigurationError, TrainerError
from tftrainer.job import Job
from tftrainer.parameter_server import (
    asynchronous,
    keras_fit,
    local_steps,
    lost_servers,
    session,
    synchronous,
)
from tftrainer.supervisor import Run


class Training(Protocol):
    """What each mode makes."""

    def run(self) -> None:
        """Make all steps."""


_MODES: Mapping[Mode, Callable[[session.Session], Training]] = {
    Mode.ASYNCHRONOUS: asynchronous.training,
    Mode.SYNCHRONOUS: synchronous.training,
    Mode.LOCAL: local_steps.training,
    Mode.FIT: keras_fit.training,
}


def train(job: Job, run: Run, cluster: Cluster) -> None:
    """Train to the end; the peers are known to answer."""
    begun: session.Session | None = None
    try:
        begun = session.begin(job, run, cluster)
        training = _MODES[job.arguments.mode](begun)
        run.held.append(training)
        training.run()
    except Exception as error:
        # The user's functions may have met the loss of a server; every other TrainerError is final.
        if isinstance(error, TrainerError) and not isinstance(error, BadConfigurationError):
            raise
        # What is cut off in the middle may fail with anything, such as the end of a dataset that
        # has none.
        explained = lost_servers.explain(error, cluster, building=begun is None)
        if explained is None:
            raise
        raise explained from error
