"""The exit codes that the operator understands; equal to tests/contract/exit_codes.json."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Why a trainer process ended."""

    SUCCEEDED = 0
    FAILED = 1
    BAD_CONFIGURATION = 64
    PEERS_UNAVAILABLE = 69
    CHECKPOINT_UNAVAILABLE = 74
    PARAMETER_SERVER_LOST = 75
    STALLED = 76
    DIVERGED = 77
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    TERMINATED = 143
