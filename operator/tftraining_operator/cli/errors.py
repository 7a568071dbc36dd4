"""What ends a command with a message instead of a traceback."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `tftj` says by its exit code."""

    SUCCEEDED = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """A command cannot go on; the text names what is wrong and the fix."""

    code = ExitCode.FAILED


class InputError(CommandError):
    """What the user gave is wrong: a file, a field or an option."""

    code = ExitCode.BAD_INPUT
