"""Exit codes that mean something, as tests/contract/exit_codes.json tables them."""

from enum import IntEnum

from tftraining_operator.api.keys import Role
from tftraining_operator.api.reasons import Reason
from tftraining_operator.core.cause import Cause


class ExitCode(IntEnum):
    """What a training process says by its exit code."""

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


_PERMANENT = frozenset(
    {
        ExitCode.BAD_CONFIGURATION,
        ExitCode.DIVERGED,
        ExitCode.NOT_EXECUTABLE,
        ExitCode.NOT_FOUND,
    }
)
# The runtime's words for a command that could not be started at all.
_CANNOT_START = frozenset({"StartError", "ContainerCannotRun"})
_RESTART_REASONS: dict[int | None, Reason] = {
    ExitCode.PEERS_UNAVAILABLE: Reason.PEERS_UNAVAILABLE,
    ExitCode.CHECKPOINT_UNAVAILABLE: Reason.CHECKPOINT_UNAVAILABLE,
    ExitCode.PARAMETER_SERVER_LOST: Reason.PARAMETER_SERVER_LOST,
    ExitCode.STALLED: Reason.STALLED,
}

_FAILED = {Role.CHIEF: Reason.CHIEF_FAILED, Role.WORKER: Reason.WORKER_FAILED}
"""Roles that drive an attempt; see core/roles.py."""


def is_permanent(cause: Cause) -> bool:
    """Tell whether a restart cannot help."""
    return cause.exit_code in _PERMANENT or could_not_start(cause)


def could_not_start(cause: Cause) -> bool:
    """Tell whether a node could not start the command: it is wrong, or something of the node is."""
    return cause.reason in _CANNOT_START


def failure_reason(cause: Cause | None) -> Reason:
    """Return the one word for why a failed pod ends the job."""
    if cause is None or not is_permanent(cause):
        return Reason.POD_FAILED
    diverged = cause.exit_code == ExitCode.DIVERGED
    return Reason.DIVERGED if diverged else Reason.PERMANENT_FAILURE


def restart_reason(role: Role, cause: Cause | None) -> Reason:
    """Return the one word for why a failed pod of this role restarts the attempt."""
    code = cause.exit_code if cause is not None else None
    return _RESTART_REASONS.get(code, _FAILED[role])
