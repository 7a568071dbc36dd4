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
from tftrainer.errors import ParameterServerLostError, TrainerError, gist
from tftrainer.job import Job
from tftrainer.parameter_server import asynchronous, keras_fit, local_steps, session, synchronous
from tftrainer.peer_errors import loss_behind
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
    except TrainerError:
        raise
    except Exception as error:
        # What is cut off in the middle may fail with anything, such as the end of a dataset that
        # has none.
        loss = loss_behind(error) or _loss_of(begun)
        if loss is None:
            raise
        raise ParameterServerLostError(
            f"a parameter server was lost, and the variables with it ({gist(loss)}). "
            "Training resumes from the newest checkpoint when the chief starts again."
        ) from error


def _loss_of(begun: session.Session | None) -> BaseException | None:
    """Return why a ps does not tell the step any more; None if it does, or never did."""
    if begun is None:
        return None
    try:
        begun.step.numpy()
    except Exception as error:  # noqa: BLE001 -- told by the type
        return loss_behind(error)
    return None
