"""The errors of the client; one that ends a command prints its text and has an exit code."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `tftj`."""

    SUCCEEDED = 0
    FAILED = 1
    BAD_INPUT = 2
    TIMED_OUT = 2
    NOT_FOUND = 3
    INTERRUPTED = 130
    TERMINATED = 143


class TFTrainingError(Exception):
    """What was asked for is not possible; the text names the problem and the fix."""

    code = ExitCode.FAILED


class InputError(TFTrainingError):
    """A file, a field, an argument or an option is wrong."""

    code = ExitCode.BAD_INPUT


class TimedOutError(TFTrainingError):
    """What was waited for did not happen in time."""

    code = ExitCode.TIMED_OUT


class NotFoundError(TFTrainingError):
    """There is no such object, model or log; after a typo the text suggests the nearest name."""

    code = ExitCode.NOT_FOUND


class DeniedError(TFTrainingError):
    """The API server refuses the user, as one that starts refuses everybody for a moment."""


class ForbiddenError(DeniedError):
    """The user lacks the right to do that."""


class UnauthorizedError(DeniedError):
    """The API server does not know the user."""


class AlreadyExistsError(InputError):
    """There is an object, or a folder, of that name."""


class UnreachableError(TFTrainingError):
    """The cluster did not answer, or not now: a loop may try again."""
