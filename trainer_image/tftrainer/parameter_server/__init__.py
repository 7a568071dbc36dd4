"""The chief of a ParameterServer job: schedules work on the workers and saves the variables.

Called by __main__. The variables are on the ps. Each mode has a module of its own; what all modes
need (connection, session, input) is set up in chief.

Steps are counted in an int64 variable on a ps. If a ps is lost, so are the variables, and the chief
ends; if a worker is lost, only its unfinished work is.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from tftrainer.config.arguments import Mode
from tftrainer.config.cluster import Cluster
from tftrainer.config.job import Job
from tftrainer.errors import PERHAPS_OF_A_LOSS, TrainerError
from tftrainer.parameter_server import (
    asynchronous,
    keras_fit,
    local_steps,
    lost_servers,
    synchronous,
)
from tftrainer.parameter_server.chief import Chief, begin
from tftrainer.runtime.supervisor import Run


class Training(Protocol):
    """What the module of each mode provides."""

    def run(self) -> None:
        """Make all steps."""


_MODES: Mapping[Mode, Callable[[Chief], Training]] = {
    Mode.ASYNCHRONOUS: asynchronous.training,
    Mode.SYNCHRONOUS: synchronous.training,
    Mode.LOCAL: local_steps.training,
    Mode.FIT: keras_fit.training,
}


def train(job: Job, run: Run, cluster: Cluster) -> None:
    """Train until complete; call it when all peers answer."""
    chief: Chief | None = None
    try:
        chief = begin(job, run, cluster)
        training = _MODES[job.arguments.mode](chief)
        run.kept_alive.append(training)
        training.run()
    except Exception as error:
        # Every other TrainerError is final.
        if isinstance(error, TrainerError) and not isinstance(error, PERHAPS_OF_A_LOSS):
            raise
        # What is cut off in the middle may fail with anything, such as the end of a dataset that
        # has none.
        explained = lost_servers.explain(error, cluster, building=chief is None)
        if explained is None:
            raise
        raise explained from error
