"""The one word and sentence that people are shown of a job: STATE and MESSAGE of kubectl get."""

from tftraining_operator.api.keys import ConditionType
from tftraining_operator.api.reasons import Reason
from tftraining_operator.api.status import Condition, Status
from tftraining_operator.core.conditions import find, find_true, is_true
from tftraining_operator.core.messages import NOT_PLACED

_ROUTINE = frozenset({Reason.STARTING, Reason.POD_REPLACED, Reason.ALL_READY})
"""Reasons of PodsReady that name no problem."""
_NO_PODS = frozenset({Reason.QUEUED, *NOT_PLACED, Reason.DELETION_REFUSED, Reason.NAME_CONFLICT})
_NO_CLUSTER = frozenset({Reason.SERVERS_UNREACHABLE, Reason.NO_WORKERS})
"""Reasons of PodsReady and Running that come before all else: until then nothing happens."""
_PASSING = _ROUTINE | {"ContainerCreating", "PodInitializing", "CrashLoopBackOff"}
"""Reasons of PodsReady that do not come before a restart: it may well go on."""


def headline(status: Status) -> tuple[str, str]:
    """Return the one word and the sentence for people, derived from the conditions."""
    pods = find(status.conditions, ConditionType.PODS_READY)
    refused = pods is not None and pods.reason == Reason.DELETION_REFUSED
    # An end, or the last evaluation, is what is said first; the pods that run on come after it.
    tail = f"; {pods.message}" if pods is not None and refused else ""
    for kind in (ConditionType.FAILED, ConditionType.SUCCEEDED, ConditionType.SUSPENDED):
        found = find(status.conditions, kind)
        if found is not None and is_true(status, kind):
            # A job that is suspended, but whose pods cannot be deleted, still uses its nodes.
            if found.reason == Reason.DELETION_REFUSED:
                return found.reason, found.message
            return kind.value, f"{found.message}{tail}"
    running = find(status.conditions, ConditionType.RUNNING)
    if status.chief_completion_time is not None:
        return "Evaluating", f"{running.message if running else ''}{tail}"
    if running is not None and is_true(status, ConditionType.RUNNING):
        hurt = pods is not None and not is_true(status, ConditionType.PODS_READY)
        if pods is None or not hurt:
            return "Running", running.message
        reason = "" if pods.reason in _ROUTINE else f"{pods.reason}: "
        return "Running", f"{reason}{pods.message}"
    return _not_running(status, pods, running)


def _not_running(
    status: Status, pods: Condition | None, running: Condition | None
) -> tuple[str, str]:
    for found, reasons in ((pods, _NO_PODS), (running, _NO_CLUSTER)):
        if found is not None and found.reason in reasons:
            return found.reason, found.message
    restarting = find_true(status, ConditionType.RESTARTING)
    if restarting is not None and (pods is None or pods.reason in _PASSING):
        return "Restarting", restarting.message
    if pods is not None and pods.reason not in _ROUTINE:
        return pods.reason, pods.message
    return "Starting", pods.message if pods else ""
