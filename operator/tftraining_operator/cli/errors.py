"""Errors that end a command with a message instead of a traceback."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of `tftj`."""

    SUCCEEDED = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """A command cannot continue; the text names the problem and the fix."""

    code = ExitCode.FAILED


class InputError(CommandError):
    """A file, a field or an option is wrong."""

    code = ExitCode.BAD_INPUT
