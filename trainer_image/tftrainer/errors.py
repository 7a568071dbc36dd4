"""The errors that end a trainer process: one class per exit code, raised anywhere.

__main__ and supervisor turn them into the exit code and the termination message. A message says
what is wrong and how to fix it.
"""

from typing import ClassVar

from tftrainer.exit_codes import ExitCode

_ENDS_OF_HEADINGS = ("root error(s) found.", "Graph execution error:")
# What TensorFlow puts before the message: where in the graph, and in which Python.
_PLACES = ("Detected at node", 'File "', "<stack traces unavailable>")


def one_line(error: BaseException) -> str:
    """Return type and message of a TensorFlow error in one line, without its stack."""
    return f"{type(error).__name__}: {message_line(str(error))}"


def message_line(text: str) -> str:
    """Return the line of a TensorFlow message that says what is wrong."""
    lines = [line.strip() for line in text.splitlines()]
    telling = (
        line
        for line in lines
        if line and not line.endswith(_ENDS_OF_HEADINGS) and not line.startswith(_PLACES)
    )
    return next(telling, "no message")


class TrainerError(Exception):
    """An error whose message is sufficient; no traceback is logged."""

    code: ClassVar[ExitCode] = ExitCode.FAILED


class BadConfigurationError(TrainerError):
    """Arguments, TF_CONFIG or the user's module are invalid."""

    code = ExitCode.BAD_CONFIGURATION


class OutageError(TrainerError):
    """The user's code met a server, a network or a file system that is unavailable."""

    code = ExitCode.PEERS_UNAVAILABLE


class PeersUnavailableError(TrainerError):
    """Another task of the cluster does not answer."""

    code = ExitCode.PEERS_UNAVAILABLE


class CheckpointUnavailableError(TrainerError):
    """The checkpoint directory cannot be read or written."""

    code = ExitCode.CHECKPOINT_UNAVAILABLE


PERHAPS_OF_A_LOSS = (BadConfigurationError, CheckpointUnavailableError, OutageError)
"""What the user's functions and the storage end with; a lost server may be behind it."""


class ParameterServerLostError(TrainerError):
    """A parameter server is gone, and the variables with it."""

    code = ExitCode.PARAMETER_SERVER_LOST


class NoDataError(TrainerError):
    """The user's dataset gives no batch, and does not end."""

    code = ExitCode.STALLED


class DivergedError(TrainerError):
    """The loss or a weight is no finite number any more."""

    code = ExitCode.DIVERGED


class TerminatedError(TrainerError):
    """SIGTERM came before training was complete."""

    code = ExitCode.TERMINATED
