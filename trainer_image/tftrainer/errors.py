"""The errors that a trainer process ends with; the message is written for the person who reads it.

A message says what is wrong, why that matters and how to mend it. Each class stands for one exit
code, so that raising is all that a module has to know about ending.
"""

from typing import ClassVar

from tftrainer.exit_codes import ExitCode

_ENDS_OF_HEADINGS = ("root error(s) found.", "Graph execution error:")
# What TensorFlow puts before the message: where in the graph, and in which Python.
_PLACES = ("Detected at node", 'File "', "<stack traces unavailable>")


def gist(error: BaseException) -> str:
    """Return the line of a TensorFlow error that says something; the rest is where it came from."""
    return f"{type(error).__name__}: {telling_line(str(error))}"


def telling_line(text: str) -> str:
    """Return the first line of a TensorFlow message that says what is wrong."""
    lines = [line.strip() for line in text.splitlines()]
    telling = (
        line
        for line in lines
        if line and not line.endswith(_ENDS_OF_HEADINGS) and not line.startswith(_PLACES)
    )
    return next(telling, "no message")


class TrainerError(Exception):
    """An end that is explained by its message alone; no traceback is shown."""

    code: ClassVar[ExitCode] = ExitCode.FAILED


class BadConfigurationError(TrainerError):
    """Arguments, TF_CONFIG or the user's module are not what the trainer needs."""

    code = ExitCode.BAD_CONFIGURATION


class PeersUnavailableError(TrainerError):
    """Another task of the cluster does not answer."""

    code = ExitCode.PEERS_UNAVAILABLE


class CheckpointUnavailableError(TrainerError):
    """The checkpoint directory cannot be read or written."""

    code = ExitCode.CHECKPOINT_UNAVAILABLE


class ParameterServerLostError(TrainerError):
    """A parameter server is gone, and the variables with it."""

    code = ExitCode.PARAMETER_SERVER_LOST


class TerminatedError(TrainerError):
    """SIGTERM came before training was complete."""

    code = ExitCode.TERMINATED
